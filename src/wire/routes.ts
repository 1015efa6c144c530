import type { CreditBook } from '../auth/manage/credit-book.ts';
import type { KeySpending } from '../auth/manage/key-spending.ts';
import { changeOrRecall } from '../auth/manage/recall-credits.ts';
import type { Books } from '../books.ts';
import type { Config } from '../config/config.ts';
import { version } from '../config/version.ts';
import { hostInUrl } from '../core/host-in-url.ts';
import { supportedParameters } from '../dialects/parameters.ts';
import type { Steps } from '../gateway.ts';
import { audioRoutes } from '../http/calls/audio.ts';
import { chatRoutes } from '../http/calls/chat.ts';
import { embeddingsRoutes } from '../http/calls/embeddings.ts';
import { imagesRoutes } from '../http/calls/images.ts';
import { messagesRoutes } from '../http/calls/messages.ts';
import { modelRoutes } from '../http/calls/models.ts';
import { responsesRoutes } from '../http/calls/responses.ts';
import { generationRoutes } from '../http/customer/generation.ts';
import { type CustomerParts, customerRoutes } from '../http/customer/reads.ts';
import { dashboardRoutes } from '../http/itself/dashboard.ts';
import { healthRoutes } from '../http/itself/health.ts';
import { metricsRoutes } from '../http/itself/metrics.ts';
import { referenceRoutes } from '../http/itself/reference.ts';
import { jobRoutes } from '../http/jobs/jobs.ts';
import { objectRoutes } from '../http/jobs/objects.ts';
import { adminRoutes } from '../http/manage/admin.ts';
import { stateRoutes } from '../http/manage/admin-state.ts';
import { byokRoutes } from '../http/manage/byok.ts';
import { keyRoutes } from '../http/manage/keys.ts';
import { skillRoutes } from '../http/manage/skills.ts';
import type { Route } from '../http/routes.ts';
import { walletName } from '../ledger/owner.ts';
import { isChatModel } from '../route/capability.ts';
import { unknownModel } from '../route/plan.ts';
import { storeAway } from '../store/away.ts';
import type { Store } from '../store/open.ts';
import { readOverview } from '../store/reads/overview.ts';
import { refusalBy } from '../upstream/guard/user-address.ts';
import { makeCountUpstream } from './count-tokens.ts';
import { makeErrandOf } from './errands.ts';
import type { StepParts } from './steps.ts';

interface RouteParts extends StepParts {
  readonly steps: Steps;
}

export function makeRoutes(parts: RouteParts, isDraining: () => boolean): Route[] {
  const { config, store, vault, catalogue, catalogueOf, books, steps, health } = parts;
  const { authenticator, telemetry } = parts;
  const { metrics, recent } = telemetry;
  const desk = {
    directory: store.directory,
    credits: settledCredits(store, books),
    spending: {
      spent: (...asked: Parameters<KeySpending['spent']>) =>
        books.settled(() => store.keySpending.spent(...asked), asked[0]),
    },
    now: parts.now,
    markUsed: () => authenticator.markUsed(),
    // The change is made; a store that cannot be asked now is looked at again soon.
    noticeChange: () => parts.changes.check().catch(() => undefined),
  };
  const errandOf = makeErrandOf(config, parts.skills, telemetry);
  const { bodyRoom } = parts;
  const chat = { bodyBytesMax: config.limits.bodyBytes, bodyRoom, steps, errandOf };
  const countUpstream = makeCountUpstream(catalogueOf, health, parts.addressPolicy);
  const media = { ...chat, tray: (tenantId: string) => parts.uploads.tray(tenantId) };
  const routes: Route[] = [
    ...healthRoutes({ version, ping: () => ping(parts), isDraining }),
    ...metricsRoutes(metrics),
    ...chatRoutes(chat),
    ...messagesRoutes({ ...chat, admission: parts.admission, countUpstream }),
    ...responsesRoutes(chat),
    ...embeddingsRoutes(chat),
    ...imagesRoutes(media),
    ...audioRoutes(media),
    ...modelRoutes({
      catalogueOf,
      health,
      supportedParameters: (model, offers) =>
        supportedParameters({ features: model.features, isChat: isChatModel(model) }, offers),
      unknownModel,
    }),
    ...generationRoutes({
      find: (...asked) => books.settled(() => store.requestLog.find(...asked), asked[0]),
    }),
    ...customerRoutes(customerReads(parts)),
    ...skillRoutes(parts.skills.desk),
    ...jobRoutes({
      ...chat,
      ...parts.jobs.routeParts(parts),
      turns: parts.readTurns.jobs,
      explain: storeAway,
    }),
    ...objectRoutes(parts.jobs.objectParts),
    ...keyRoutes(desk),
    ...byokRoutes({
      ...desk,
      credentials: store.credentials,
      providers: config.providers,
      vault: () => vault,
      refusalOf: refusalBy(parts.addressPolicy),
      changed: () => vault.forget(),
    }),
    ...adminRoutes({
      ...desk,
      sums: store.tenantSums,
      settled: (read) => books.settled(read),
      overview: () => overviewOf(parts),
    }),
    ...stateRoutes({ catalogue, health, recent, booksState: () => books.state() }),
    ...dashboardRoutes(),
    ...referenceRoutes({ version, ...addressOf(config), routes: () => routes }),
  ];
  return routes;
}

/** Rejects while no request that costs credits could begin in this process. */
async function ping({ books, store }: RouteParts): Promise<void> {
  books.requireRoom();
  await store.database.ping();
}

/** The numbers that operators see first. Settled first, so that they agree with the other pages. */
function overviewOf({ books, store: { database } }: RouteParts) {
  return books.settled(async () => {
    const withoutSpares = books.withoutSpares();
    const { balance, ...counts } = await readOverview(database);
    return {
      ...counts,
      balance: withoutSpares(balance),
      version,
      uptimeSeconds: Math.round(process.uptime()),
      database: database.engine,
    };
  });
}

/** What tenants may read about their own requests and credits. */
function customerReads({ config, store, books, now, readTurns }: RouteParts): CustomerParts {
  return {
    logs: store.logs,
    analytics: store.analytics,
    splits: store.splits,
    wallets: {
      async totals(tenantId: string) {
        const withoutSpare = books.withoutSpare(tenantId);
        return withoutSpare(await store.walletTotals.totals(tenantId));
      },
    },
    requests: store.requestLog,
    statements: store.statements,
    months: store.statementMonths,
    spending: store.keySpending,
    creditsPerUsd: config.creditsPerUsd,
    limits: config.limits,
    settled: (read, tenantId) => books.settled(read, tenantId),
    turns: readTurns,
    now: Date.now,
    booksNow: now,
  };
}

/**
 * Without a public address, the API description names a path, which programs resolve against the
 * address they have it from; an example that people copy needs a whole address.
 */
function addressOf({ server }: Config): { readonly url: string; readonly exampleUrl: string } {
  const { publicUrl, host, port } = server;
  const local = `http://${hostInUrl(host)}:${port}`;
  return { url: publicUrl ?? '/', exampleUrl: publicUrl ?? local };
}

/** Whoever looks at credits sees every request that has ended, and only running ones as held. */
function settledCredits({ creditBook, ledger }: Store, books: Books): CreditBook {
  const recall = (id: string) => ledger.recall(walletName(id), '');
  return {
    change: (change) =>
      books.settled(() => changeOrRecall(creditBook, change, recall), change.tenantId),
    balance: (tenantId) =>
      books.settled(async () => {
        const withoutSpare = books.withoutSpare(tenantId);
        const wallet = await creditBook.balance(tenantId);
        return wallet && withoutSpare(wallet);
      }, tenantId),
    entries: (tenantId, page) => books.settled(() => creditBook.entries(tenantId, page), tenantId),
  };
}
