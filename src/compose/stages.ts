import { randomInt } from 'node:crypto';
import { findReplay } from '../cache/replay.ts';
import type { Call, Operation } from '../call.ts';
import type { Config } from '../config/config.ts';
import { withoutSuffix } from '../dialects/normalize/requests/search-options.ts';
import { supportsParameter } from '../dialects/parameters.ts';
import type { Stages } from '../gateway.ts';
import type { Admission } from '../limits/admission.ts';
import { reserve } from '../money/hold/reserve.ts';
import { settle } from '../money/settle/settle.ts';
import type { RunningRequest } from '../records/running-requests.ts';
import type { Catalog, CatalogOf, Offer } from '../route/catalog.ts';
import { planOperation, withProbe } from '../route/plan.ts';
import { pricingTime } from '../route/priced-catalogs.ts';
import { resolveModels } from '../route/requested-models.ts';
import { CallAttemptContext } from '../upstream/attempt-context.ts';
import { openByFor, tryOffers } from '../upstream/fallback.ts';
import type { AddressPolicy } from '../upstream/guard/address-policy.ts';
import { createGuardedFetch } from '../upstream/guard/guarded-fetch.ts';
import { rejectPrivateUrls } from '../upstream/request-urls.ts';
import type { SharedServices } from './shared-services.ts';

/**
 * The shared services, and the objects that depend on the configuration. A reload rebuilds those.
 */
export interface StageDeps extends SharedServices {
  readonly config: Config;
  readonly catalog: Catalog;
  readonly catalogOf: CatalogOf;
  readonly admission: Admission;
  /** Decides which addresses may be called for a URL from a user. */
  readonly addressPolicy: AddressPolicy;
}

/** Connects the pipeline stages of gateway.ts to the services they work on. */
export function createStages(deps: StageDeps): Stages {
  const { config, catalog, catalogOf, admission, accounting, cache, idempotency } = deps;
  const { running, health, telemetry, addressPolicy } = deps;
  const attemptDeps = attemptDepsOf(deps);
  const money = {
    creditsPerUsd: config.creditsPerUsd,
    chargesAbandonedInput: config.billing.abandoned === 'input',
    hold: accounting.hold.bind(accounting),
    dispatched: accounting.dispatched.bind(accounting),
    saveSettlement: accounting.saveSettlement.bind(accounting),
    saveWithAnswer: accounting.saveWithAnswer.bind(accounting),
    nameOf: recordedNames(deps),
    observeSpeed: health.observeSpeed.bind(health),
    observeEnd: health.ended.bind(health),
    countTokens: admission.countTokens.bind(admission),
  };
  const replayDeps = {
    cache,
    idempotency,
    cacheMode: config.cache.mode,
    isOffered: (model: string, provider: string) =>
      catalog.allOffers(model).some((offer) => offer.provider.name === provider),
  };
  return {
    countRequest(call) {
      telemetry.requestStarted(call);
      return admission.countRequest(call.caller, call.headers);
    },
    acquireSlot: ({ caller }) => admission.acquire(caller),
    resolveModels: (call, { request }) => resolveModels(call, request, deps),
    findReplay(call, operation) {
      running.started(runningRequest(call, operation));
      return findReplay(call, operation, replayDeps);
    },
    plan(call, operation) {
      rejectPrivateUrls(operation.request.urls, addressPolicy);
      const { caller } = call;
      const callable = catalogOf(caller, pricingTime(call, deps.storeAheadMs()));
      const context = { health, supports: supportsParameter, session: call, random };
      return callable instanceof Promise
        ? callable.then((catalog) => planOperation(operation, caller, { ...context, catalog }))
        : planOperation(operation, caller, { ...context, catalog: callable });
    },
    reserve: (call, operation, offers) => reserve(call, operation, offers, money),
    tryOffers(call, operation, reservation) {
      let context: CallAttemptContext | undefined;
      const tryAt = (offer: Offer, withKey: Offer) => {
        context?.releaseMemory();
        const affordable = reservation.capFor(offer);
        call.recordingSession?.recorder.setCapped(affordable !== null);
        const outputTokensMax = affordable ?? reservation.defaultCapFor(offer);
        const limits = { outputTokensMax, openBy };
        context = new CallAttemptContext(call, offer, limits, attemptDeps);
        return operation.tryAt(withKey, context);
      };
      const offers = withProbe(reservation.offers, operation.request.preferences, health);
      const openBy = openByFor(offers);
      return tryOffers(offers, tryAt, deps, call, openBy);
    },
    settle(call, outcome) {
      running.ended(call.requestId);
      return settle(call, outcome, money);
    },
    reportLateError: ({ requestId }, error) => telemetry.reportLateError(requestId, error),
  };
}

const random = () => randomInt(2 ** 32);

function attemptDepsOf(deps: StageDeps) {
  const { deadlines, telemetry, bodyMemoryBudget, answerMemoryBudget, addressPolicy } = deps;
  return {
    ...{ deadlines, telemetry, bodyMemoryBudget, answerMemoryBudget, addressPolicy },
    fetchGuarded: createGuardedFetch(addressPolicy),
  };
}

function runningRequest(call: Call, { request }: Operation): RunningRequest {
  const { requestId, receivedAt, operationName } = call;
  return {
    requestId,
    tenantId: call.caller.tenantId,
    operation: operationName,
    model: request.models[0] ?? '',
    streamed: request.stream,
    createdAt: receivedAt,
  };
}

/** Returns a function that returns the name to record for the model of a request. */
function recordedNames({ catalog, unknownModelNames }: StageDeps) {
  return (requested: string, tenantId: string, answered: string | null): string => {
    const name = withoutSuffix(requested);
    if (requested === '' || catalog.model(name)) return requested;
    const [alias, ...others] = catalog.names.find(name);
    // A request with an invalid body is recorded before its models are resolved.
    if (alias !== undefined && others.length === 0) return alias;
    return unknownModelNames.recordedAs(tenantId, requested, answered ?? undefined);
  };
}
