import { settledCreditStore } from '../auth/management/credits.ts';
import type { KeySpending } from '../auth/management/keys.ts';
import type { Operation } from '../call.ts';
import type { Config } from '../config/config.ts';
import { version } from '../config/version.ts';
import { hostInUrl } from '../core/network-address.ts';
import { supportedParameters, supportsParameter } from '../dialects/parameters.ts';
import type { Stages } from '../gateway.ts';
import { generationRoutes } from '../http/customer/generation.ts';
import { type CustomerDeps, customerRoutes } from '../http/customer/reports.ts';
import { skillRoutes } from '../http/customer/skills.ts';
import { audioRoutes } from '../http/inference/audio.ts';
import {
  type ChatDeps,
  chatRoutes,
  messagesRoutes,
  responsesRoutes,
} from '../http/inference/chat.ts';
import { embeddingsRoutes } from '../http/inference/embeddings.ts';
import { explainRoutes } from '../http/inference/explain.ts';
import { imagesRoutes } from '../http/inference/images.ts';
import { modelRoutes } from '../http/inference/models.ts';
import { jobRoutes } from '../http/jobs/jobs.ts';
import { objectRoutes } from '../http/jobs/object-routes.ts';
import { adminRoutes, providerStates, stateRoutes } from '../http/management/admin.ts';
import { auditRoutes } from '../http/management/audit.ts';
import { byokRoutes } from '../http/management/byok.ts';
import { configRoutes } from '../http/management/config.ts';
import { keyRoutes, tenantKeyRoutes } from '../http/management/keys.ts';
import { providerRoutes } from '../http/management/providers.ts';
import { operatorReceiptRoutes } from '../http/management/receipt.ts';
import type { Route } from '../http/routes.ts';
import { dashboardRoutes } from '../http/system/dashboard.ts';
import { healthRoutes, metricsRoutes } from '../http/system/probes.ts';
import { referenceRoutes } from '../http/system/reference.ts';
import { walletName } from '../money/ledger.ts';
import { createTokenCounter } from '../operations/chat/count-tokens.ts';
import { createOperationFactory } from '../operations/chat/create-operation.ts';
import { isChatModel } from '../route/capability.ts';
import { explainRoute } from '../route/explain.ts';
import { unknownModel } from '../route/plan.ts';
import type { RequestedBy } from '../route/requested-models.ts';
import { toOutageError } from '../store/errors.ts';
import { readOverview } from '../store/reports/totals.ts';
import { rejectionReasonBy } from '../upstream/guard/pinned-call.ts';
import { testProvider } from '../upstream/provider-test.ts';
import { rejectPrivateUrls } from '../upstream/request-urls.ts';
import type { StageDeps } from './stages.ts';

interface RouteDeps extends StageDeps {
  readonly stages: Stages;
}

export function createRoutes(deps: RouteDeps, isDraining: () => boolean): Route[] {
  const { config, store, vault, accounting, running } = deps;
  const { metrics } = deps.telemetry;
  const managementDeps = managementDepsOf(deps);
  const chat = chatDepsOf(deps);
  const routes: Route[] = [
    ...healthRoutes({ version, isDraining, ping: () => ping(deps), warning: accounting.warning }),
    ...metricsRoutes(metrics),
    ...inferenceRoutes(deps, chat),
    ...generationRoutes({
      find: (...args) => accounting.readSettled(() => store.requestLog.find(...args), args[0]),
      ...{ running, creditsPerUsd: config.creditsPerUsd },
    }),
    ...customerRoutes(customerReads(deps)),
    ...skillRoutes(deps.skills.service),
    ...jobRoutes({
      ...chat,
      ...deps.jobs.routeDeps(deps),
      listQueue: deps.readQueues.jobs,
      mapError: toOutageError,
    }),
    ...objectRoutes(deps.jobs.objectRouteDeps),
    ...keyRoutes({
      ...managementDeps,
      requestsPerMinuteMax: config.limits.requestsPerMinute,
      creditsPerUsd: config.creditsPerUsd,
      requestsPerMinute: config.limits.requestsPerMinute,
    }),
    ...tenantKeyRoutes(managementDeps),
    ...byokRoutes({
      ...managementDeps,
      credentials: store.credentials,
      providers: config.providers,
      vault: () => vault,
      rejectionReason: rejectionReasonBy(deps.addressPolicy),
      changed: () => vault.forget(),
    }),
    ...adminRoutes({
      ...managementDeps,
      sums: store.tenantSums,
      settled: (read) => accounting.readSettled(read),
      overview: () => overviewOf(deps),
    }),
    ...operatorReceiptRoutes({
      findForAnyTenant: (id) => accounting.readSettled(() => store.requestLog.findForAnyTenant(id)),
      ...{ running, directory: store.directory, creditsPerUsd: config.creditsPerUsd },
    }),
    ...stateRoutes({ accountingState: () => accounting.state() }),
    ...controlRoutes(deps),
    ...dashboardRoutes(),
    ...referenceRoutes({ version, ...publicUrlsOf(config), routes: () => routes }),
  ];
  return routes;
}

/** Returns what the endpoints that call models share. */
function chatDepsOf({ config, stages, skills, telemetry, bodyMemoryBudget }: RouteDeps): ChatDeps {
  return {
    bodyBytesMax: config.limits.bodyBytes,
    ...{ bodyMemoryBudget, stages },
    operationOf: createOperationFactory(config, skills.resolver, telemetry),
    usesTextCodes: config.chatErrorCodes === 'name',
  };
}

/** Returns the endpoints that call models, explain such calls, or list the models. */
function inferenceRoutes(deps: RouteDeps, chat: ChatDeps): Route[] {
  const { store, catalogOf, health } = deps;
  const countUpstream = createTokenCounter(catalogOf, deps, deps.addressPolicy);
  const media = {
    ...chat,
    uploadDirectory: (tenantId: string) => deps.uploads.uploadsFor(tenantId),
  };
  return [
    ...chatRoutes(chat),
    ...messagesRoutes({ ...chat, admission: deps.admission, countUpstream }),
    ...responsesRoutes(chat),
    ...embeddingsRoutes(chat),
    ...imagesRoutes(media),
    ...audioRoutes(media),
    ...explainRoutes({
      ...chat,
      directory: store.directory,
      health,
      explain: (operation, requestedBy) => explain(operation, requestedBy, deps),
    }),
    ...modelRoutes({
      catalogOf,
      health,
      supportedParameters: (model, offers) =>
        supportedParameters({ features: model.features, isChat: isChatModel(model) }, offers),
      unknownModel,
    }),
  ];
}

/** Returns the dependencies of the routes that manage keys, credits, and tenants. */
function managementDepsOf(deps: RouteDeps) {
  const { config, store, accounting, authenticator, changes, now } = deps;
  return {
    directory: store.directory,
    credits: settledCreditStore(store.creditStore, accounting, (tenantId) =>
      store.ledger.recall(walletName(tenantId), ''),
    ),
    spending: {
      spent: (...args: Parameters<KeySpending['spent']>) =>
        accounting.readSettled(() => store.keySpending.spent(...args), args[0]),
    },
    now,
    plans: () => config.plans.keys(),
    markUsed: () => authenticator.markUsed(),
    // The change is committed. If this check fails, the next periodic check detects the change.
    applyChanges: () => changes.check().catch(() => undefined),
  };
}

/** Resolves the models of a request and plans it, as if it were sent. */
async function explain(operation: Operation, requestedBy: RequestedBy, deps: RouteDeps) {
  const { caller } = requestedBy;
  const { config, stages, catalogOf, health, addressPolicy } = deps;
  rejectPrivateUrls(operation.request.urls, addressPolicy);
  await stages.resolveModels(requestedBy, operation);
  return explainRoute(operation, caller, {
    catalog: await catalogOf(caller, deps.now()),
    ...{ health, supports: supportsParameter, creditsPerUsd: config.creditsPerUsd },
    session: { caller, sessionId: requestedBy.clientHeader('x-session-id'), operation },
  });
}

/** Returns the routes that manage the configuration and read the audit log. */
function controlRoutes(deps: RouteDeps): Route[] {
  const { config, store, live, changes, now, catalog, health, providerKeys } = deps;
  const { recent } = deps.telemetry;
  const routeDeps = {
    ...{ store: store.configObjects, audit: store.auditLog },
    vault: () => live.vault,
    base: () => live.base,
    current: () => config,
    now,
    // The change is committed. If this check fails, the next periodic check detects the change.
    changed: () => changes.check().catch(() => undefined),
    providerStates: () => providerStates({ catalog, health, providerKeys, recent }),
    isCallable: (id: string) => catalog.offers(id).length > 0,
  };
  return [
    ...configRoutes(routeDeps),
    ...providerRoutes({
      ...routeDeps,
      testProvider: async (name, body) => {
        const provider = config.providers.get(name);
        const offers = catalog.offersAt(name).filter(({ model }) => isChatModel(model));
        return provider && testProvider(provider, offers, body);
      },
    }),
    ...auditRoutes(store.auditLog),
  ];
}

/** Rejects while this process can't accept billable requests. */
async function ping({ accounting, store }: RouteDeps): Promise<void> {
  accounting.requireCapacity();
  await store.database.ping();
}

/**
 * Reads the operator's overview. Books ended requests first, so that the numbers agree with those
 * on other pages.
 */
function overviewOf({ accounting, live, store: { database } }: RouteDeps) {
  return accounting.readSettled(async () => {
    const { balance, ...counts } = await readOverview(database, accounting.processId);
    return {
      ...counts,
      balance: accounting.withOwnHolds(balance),
      version,
      uptimeSeconds: Math.round(process.uptime()),
      database: database.engine,
      configuration: {
        source: live.base.source,
        version: live.state.version,
        applied_version: live.state.appliedVersion,
        problems: live.state.problems,
      },
    };
  });
}

/** Returns the dependencies of the routes that show tenants their own requests and credits. */
function customerReads({ config, store, accounting, now, readQueues }: RouteDeps): CustomerDeps {
  return {
    ...{ logs: store.logs, analytics: store.analytics, usageGroups: store.usageGroups },
    wallets: {
      async totals(tenantId: string) {
        const totals = await store.walletTotals.totals(tenantId, accounting.processId);
        return accounting.withOwnHolds(totals, tenantId);
      },
    },
    ...{ requests: store.requestLog, spending: store.keySpending },
    ...{ statements: store.statements, months: store.statementMonths },
    ...{ creditsPerUsd: config.creditsPerUsd, limits: config.limits },
    settled: (read, tenantId) => accounting.readSettled(read, tenantId),
    queues: readQueues,
    now: Date.now,
    accountingNow: now,
  };
}

/**
 * Without a public URL, the OpenAPI document has a relative URL, which tools resolve against the
 * URL of the document. Examples to copy need an absolute URL.
 */
function publicUrlsOf({ server }: Config): {
  readonly url: string;
  readonly exampleUrl: string;
} {
  const { publicUrl, host, port } = server;
  const local = `http://${hostInUrl(host)}:${port}`;
  return { url: publicUrl ?? '/', exampleUrl: publicUrl ?? local };
}
