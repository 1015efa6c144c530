import { Authenticator } from './auth/authenticate.ts';
import { ChangeWatch } from './auth/change-watch.ts';
import { type FreshSecrets, firstStart } from './auth/first-start.ts';
import { nothingSpent } from './auth/key-spending.ts';
import { Books } from './books.ts';
import { repeatAll } from './chores.ts';
import type { Config, Model, Provider } from './config/config.ts';
import { version } from './config/version.ts';
import { completionId, randomText } from './core/ids.ts';
import { demoModels, demoProvider } from './demo/demo-models.ts';
import { startDemoUpstream } from './demo/demo-upstream.ts';
import { supportedParameters, supportsParameter } from './dialects/parameters.ts';
import type { Steps } from './gateway.ts';
import { adminRoutes } from './http/admin.ts';
import { chatRoutes } from './http/chat.ts';
import { generationRoutes } from './http/generation.ts';
import { healthRoutes } from './http/health.ts';
import { keyRoutes } from './http/keys.ts';
import { modelRoutes } from './http/models.ts';
import type { Route } from './http/routes.ts';
import { HttpServer } from './http/server.ts';
import { Admission } from './limits/admit.ts';
import { ConcurrencyLimiter } from './limits/concurrency.ts';
import { RateLimiter } from './limits/rate.ts';
import { reserve } from './reserve.ts';
import { chatMisfit, checkImages } from './route/capability.ts';
import { Catalogue } from './route/catalogue.ts';
import { Health } from './route/health.ts';
import { plan } from './route/plan.ts';
import { settle } from './settle.ts';
import { openStore, type Store } from './store/open.ts';
import { readOverview } from './store/overview.ts';
import type { Log } from './telemetry/log.ts';
import { openFirst } from './upstream/fallback.ts';
import { createGuardedFetch } from './upstream/guarded-fetch.ts';
import { tryOffer } from './upstream/try-offer.ts';
import { Watch } from './upstream/watch.ts';

/** A built Tollgate, not yet listening. */
export interface Tollgate {
  readonly firstSecrets: FreshSecrets | undefined;
  readonly models: readonly Model[];
  readonly engine: string;
  /** Starts serving; answers the port in use. */
  listen(): number;
  /** Lets running requests finish, writes everything down and closes. */
  drain(seconds: number): Promise<void>;
}

/** Builds every part by hand. The only file that may import everything. */
export async function build(config: Config, log: Log): Promise<Tollgate> {
  const store = await openStore(config.database.reveal());
  const firstSecrets = await firstStart(config.bootstrap, {
    directory: store.directory,
    grantOnce: (tenantId, credits) => grantOnce(store, tenantId, credits),
    now: Date.now(),
  });
  const demo = config.demo ? startDemoUpstream() : undefined;
  const catalogue = makeCatalogue(config, demo?.url);
  const books = await Books.open({
    store: store.ledger,
    dataDir: config.dataDir,
    durability: config.billing.durability,
    processId: randomText(16),
    log,
  });
  const authenticator = new Authenticator(store.directory);
  const changes = new ChangeWatch(store.directory, () => authenticator.forget());
  const steps = makeSteps(config, catalogue, books);
  const server: HttpServer = new HttpServer({
    routes: makeRoutes({ config, store, catalogue, books, steps }, () => server.draining),
    authenticator,
    log,
  });
  const chores = repeatAll([...authenticator.chores(), ...changes.chores(), ...books.chores()]);
  return {
    firstSecrets,
    models: catalogue.live(),
    engine: store.database.engine,
    listen() {
      return server.listen(config.server.host, config.server.port);
    },
    async drain(seconds) {
      await server.drain(seconds);
      chores.stop();
      await books.close();
      await authenticator.markUsed();
      await demo?.stop();
      await store.database.close();
    },
  };
}

async function grantOnce(store: Store, tenantId: string, credits: number): Promise<void> {
  await store.creditBook.change({
    tenantId,
    amount: credits,
    note: 'First grant',
    idempotencyKey: 'first-start',
    now: Date.now(),
  });
}

function makeCatalogue(config: Config, demoUrl: string | undefined): Catalogue {
  if (demoUrl === undefined) return new Catalogue(config.models, config.providers);
  const provider: Provider = {
    name: demoProvider,
    dialect: 'openai',
    baseUrl: demoUrl,
    apiKey: null,
    headers: {},
    timeoutMs: 120_000,
    idleTimeoutMs: 120_000,
    quirks: {},
  };
  return new Catalogue(
    [...config.models, ...demoModels],
    new Map([...config.providers, [demoProvider, provider]]),
  );
}

/** The steps of gateway.ts, each tied to the parts it works on. */
function makeSteps(
  config: Config,
  catalogue: Catalogue,
  books: Books,
): (headers: Record<string, string>) => Steps {
  const admission = new Admission(new RateLimiter(), new ConcurrencyLimiter(), config.limits);
  const health = new Health();
  const watch = new Watch();
  const fetchGuarded = createGuardedFetch({});
  const { creditsPerUsd } = config;
  return (headers) => ({
    countRequest: ({ caller }) => admission.countRequest(caller, headers),
    enter: ({ caller }) => admission.enter(caller),
    plan({ caller }, { ask, crossTo }) {
      const offers = plan(ask, caller, {
        catalogue,
        health,
        misfit: (offer) =>
          crossTo(offer.dialect) ? chatMisfit(offer.model, ask) : 'cannot chat with this client',
        supports: (offer, name) => supportsParameter(offer, name),
      });
      for (const { model } of offers) checkImages(model, ask);
      return offers;
    },
    reserve: (call, { ask }, offers) =>
      reserve(call, ask, offers, {
        creditsPerUsd,
        hold: (held, order) => books.hold(held, order),
        dispatched: (sent) => books.dispatched(sent),
      }),
    openFirst(call, conversation, offers, reservation) {
      const attemptAt = (offer: (typeof offers)[number]) =>
        tryOffer({
          conversation,
          offer,
          identity: {
            id: completionId(call.requestId),
            model: offer.model.id,
            provider: offer.provider.name,
            created: Math.floor(call.receivedAt / 1000),
          },
          outputTokensMax: reservation.capFor(offer),
          client: call.client,
          watch,
          fetchGuarded,
        });
      return openFirst(offers, attemptAt, health, call.trail, call.client);
    },
    settle: (call, ending) =>
      settle(call, ending, call.hold, {
        creditsPerUsd,
        keep: (settlement, wasDispatched) => books.keep(settlement, wasDispatched),
        observeSpeed: (offer, tokensPerSecond) => health.observeSpeed(offer, tokensPerSecond),
      }),
  });
}

interface RouteParts {
  readonly config: Config;
  readonly store: Store;
  readonly catalogue: Catalogue;
  readonly books: Books;
  steps(headers: Record<string, string>): Steps;
}

function makeRoutes(parts: RouteParts, isDraining: () => boolean): Route[] {
  const { config, store, catalogue, books, steps } = parts;
  const startedAt = Date.now();
  const desk = {
    directory: store.directory,
    credits: store.creditBook,
    spending: {
      spent: async (_tenant: string, ids: readonly string[]) =>
        new Map(ids.map((id) => [id, nothingSpent])),
    },
    now: Date.now,
  };
  return [
    ...healthRoutes({
      version,
      ping: () => store.database.ping(),
      isDraining,
      modelCount: () => catalogue.live().length,
    }),
    ...chatRoutes({ bodyBytesMax: config.limits.bodyBytes, steps }),
    ...modelRoutes({
      catalogue: () => catalogue,
      supportedParameters: (model) => supportedParameters(catalogue.offers(model.id)),
    }),
    ...generationRoutes({
      async find(tenantId, requestId) {
        await books.flush();
        return store.requestLog.find(tenantId, requestId);
      },
    }),
    ...keyRoutes(desk),
    ...adminRoutes({
      ...desk,
      overview: async () => ({
        ...(await readOverview(store.database)),
        version,
        uptimeSeconds: Math.round((Date.now() - startedAt) / 1000),
        database: store.database.engine,
      }),
    }),
  ];
}
