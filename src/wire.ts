import { Authenticator } from './auth/authenticate.ts';
import { ChangeWatch } from './auth/change-watch.ts';
import { type FreshSecrets, firstStart } from './auth/first-start.ts';
import { Vault } from './auth/vault.ts';
import { Books } from './books.ts';
import { repeatAll } from './chores.ts';
import type { Config, Model, Provider } from './config/config.ts';
import { version } from './config/version.ts';
import { randomText } from './core/ids.ts';
import { demoModels, demoProvider } from './demo/demo-models.ts';
import { startDemoUpstream } from './demo/demo-upstream.ts';
import { supportedParameters, supportsParameter } from './dialects/parameters.ts';
import { identityOf, type Steps } from './gateway.ts';
import { adminRoutes } from './http/admin.ts';
import { byokRoutes } from './http/byok.ts';
import { chatRoutes } from './http/chat.ts';
import { customerRoutes } from './http/customer.ts';
import { generationRoutes } from './http/generation.ts';
import { healthRoutes } from './http/health.ts';
import { keyRoutes } from './http/keys.ts';
import { modelRoutes } from './http/models.ts';
import type { Route } from './http/routes.ts';
import { HttpServer } from './http/server.ts';
import type { CreditBook } from './ledger/credits.ts';
import { Admission } from './limits/admit.ts';
import { ConcurrencyLimiter } from './limits/concurrency.ts';
import { RateLimiter } from './limits/rate.ts';
import { reserve } from './reserve.ts';
import { withOwnAccounts } from './route/byok.ts';
import { chatMisfit, keepFittingImages } from './route/capability.ts';
import { type CallableModels, Catalogue, type Offer } from './route/catalogue.ts';
import { Health } from './route/health.ts';
import { plan } from './route/plan.ts';
import { settle } from './settle.ts';
import { openStore, type Store } from './store/open.ts';
import { readOverview } from './store/overview.ts';
import { LogRetention } from './store/retention.ts';
import { secretKeyOf } from './store/secret-key.ts';
import { type Log, reason } from './telemetry/log.ts';
import { openFirst } from './upstream/fallback.ts';
import { createGuardedFetch } from './upstream/guarded-fetch.ts';
import { tryOffer } from './upstream/try-offer.ts';
import { checkPublicAddress, refusalOfAddress } from './upstream/user-address.ts';
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
  const vault = await Vault.open({
    store: store.credentials,
    secret: secretKeyOf(config),
    isStart: true,
    onUnreadable: (tenant, provider) => log.error('credential_unreadable', { tenant, provider }),
  });
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
  const changes = new ChangeWatch(store.directory, () => {
    authenticator.forget();
    vault.forget();
  });
  const catalogueOf = async (tenantId: string) => {
    const credentials = await vault.credentialsOf(tenantId);
    return withOwnAccounts(catalogue, credentials, config.billing.byokFeeBasisPoints);
  };
  const steps = makeSteps(config, catalogueOf, books);
  const server: HttpServer = new HttpServer({
    routes: makeRoutes({ config, store, vault, catalogueOf, books, steps }, () => server.draining),
    authenticator,
    log,
  });
  const retention = makeRetention(config, store, log);
  const chores = repeatAll([
    ...authenticator.chores(),
    ...changes.chores(),
    ...books.chores(),
    ...(retention?.chores() ?? []),
  ]);
  return {
    firstSecrets,
    models: catalogue.live(),
    engine: store.database.engine,
    listen() {
      void retention?.run();
      return server.listen(config.server.host, config.server.port);
    },
    async drain(seconds) {
      await server.drain(seconds);
      chores.stop();
      await retention?.stop();
      await books.close();
      await authenticator.markUsed();
      await demo?.stop();
      await store.database.close();
    },
  };
}

function makeRetention(config: Config, store: Store, log: Log): LogRetention | undefined {
  const { keepDays } = config.logs;
  if (keepDays === null) return undefined;
  return new LogRetention({
    database: store.database,
    keepDays,
    now: Date.now,
    onDone: (rows) => log.info('logs_removed', { rows, older_than_days: keepDays }),
    onFailure: (thrown) => log.error('log_retention_failed', { reason: reason(thrown) }),
  });
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
    shared: true,
    byokBaseUrl: false,
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
  catalogueOf: (tenantId: string) => Promise<CallableModels>,
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
    async plan({ caller }, { ask, crossTo }) {
      const offers = plan(ask, caller, {
        catalogue: await catalogueOf(caller.tenantId),
        health,
        misfit: (offer) =>
          crossTo(offer.dialect) ? chatMisfit(offer.model, ask) : 'cannot chat with this client',
        supports: (offer, name) => supportsParameter(offer, name),
      });
      return keepFittingImages(offers, ask);
    },
    reserve: (call, { ask }, offers) =>
      reserve(call, ask, offers, {
        creditsPerUsd,
        hold: (held, order) => books.hold(held, order),
        dispatched: (sent) => books.dispatched(sent),
      }),
    openFirst(call, conversation, reservation) {
      const attemptAt = (offer: Offer) =>
        tryOffer({
          conversation,
          offer,
          identity: { ...identityOf(call, offer.model.id), provider: offer.provider.name },
          outputTokensMax: reservation.capFor(offer),
          client: call.client,
          watch,
          fetchGuarded,
          checkAddress: checkPublicAddress,
        });
      return openFirst(reservation.offers, attemptAt, health, call.trail, call.client);
    },
    settle: (call, ending) =>
      settle(call, ending, call.hold, {
        creditsPerUsd,
        keep: (settlement, wasDispatched) => books.keep(settlement, wasDispatched),
        observeSpeed: (offer, tokensPerSecond) => health.observeSpeed(offer, tokensPerSecond),
        observeBreak: (offer) => health.failed(offer),
      }),
  });
}

interface RouteParts {
  readonly config: Config;
  readonly store: Store;
  readonly vault: Vault;
  catalogueOf(tenantId: string): Promise<CallableModels>;
  readonly books: Books;
  steps(headers: Record<string, string>): Steps;
}

function makeRoutes(parts: RouteParts, isDraining: () => boolean): Route[] {
  const { config, store, vault, catalogueOf, books, steps } = parts;
  const startedAt = Date.now();
  const desk = {
    directory: store.directory,
    credits: settledCredits(store, books),
    spending: {
      async spent(tenantId: string, keyIds: readonly string[], now: number) {
        await books.flush();
        return store.keySpending.spent(tenantId, keyIds, now);
      },
    },
    now: Date.now,
  };
  return [
    ...healthRoutes({
      version,
      ping: () => store.database.ping(),
      isDraining,
    }),
    ...chatRoutes({ bodyBytesMax: config.limits.bodyBytes, steps }),
    ...modelRoutes({ catalogueOf, supportedParameters }),
    ...generationRoutes({
      async find(tenantId, requestId) {
        await books.flush();
        return store.requestLog.find(tenantId, requestId);
      },
    }),
    ...customerRoutes({
      logs: store.logs,
      analytics: store.analytics,
      wallets: {
        totals: async (tenantId) =>
          books.withoutSpare(tenantId, await store.analytics.totals(tenantId)),
      },
      statements: store.statements,
      spending: store.keySpending,
      creditsPerUsd: config.creditsPerUsd,
      limits: config.limits,
      flush: () => books.flush(),
      now: Date.now,
    }),
    ...keyRoutes(desk),
    ...byokRoutes({
      ...desk,
      credentials: store.credentials,
      providers: config.providers,
      vault: () => vault,
      refusalOf: refusalOfAddress,
      changed: () => vault.forget(),
    }),
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

/** Whoever looks at credits sees every request that has ended, and only running ones as held. */
function settledCredits({ creditBook }: Store, books: Books): CreditBook {
  return {
    async change(change) {
      await books.flush();
      return creditBook.change(change);
    },
    async balance(tenantId) {
      await books.flush();
      const wallet = await creditBook.balance(tenantId);
      return wallet && books.withoutSpare(tenantId, wallet);
    },
    async entries(tenantId, page) {
      await books.flush();
      return creditBook.entries(tenantId, page);
    },
  };
}
