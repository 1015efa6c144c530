import { findReplay } from '../cache/replay.ts';
import { type Call, droppedParamsHeader, identityOf, type Operation } from '../call.ts';
import type { Config } from '../config/config.ts';
import { droppedNamesMax } from '../core/bounds.ts';
import type { Caller } from '../core/caller.ts';
import type { DeadlineWatcher } from '../core/deadlines.ts';
import { GatewayError } from '../core/errors.ts';
import { withoutSuffix } from '../dialects/normalize/requests/search-options.ts';
import { supportsParameter } from '../dialects/parameters.ts';
import type { Stages } from '../gateway.ts';
import type { Admission } from '../limits/admission.ts';
import {
  type MemoryBudget,
  type MemoryReservation,
  reserveForRequest,
} from '../limits/memory-budget.ts';
import { reserve } from '../money/hold/reserve.ts';
import { settle } from '../money/settle/settle.ts';
import { entitledOffers } from '../route/capability.ts';
import type { CallableModels, Catalog, CatalogOf, Offer } from '../route/catalog.ts';
import type { Health } from '../route/health.ts';
import { plan, withProbe } from '../route/plan.ts';
import type { AttemptContext } from '../upstream/attempt.ts';
import { refusePrivateAddresses } from '../upstream/chat-attempt.ts';
import { openFirst } from '../upstream/fallback.ts';
import type { AddressPolicy } from '../upstream/guard/address-policy.ts';
import { createGuardedFetch, type GuardedFetch } from '../upstream/guard/guarded-fetch.ts';
import { type CheckAddress, checkBy } from '../upstream/guard/pinned-call.ts';
import type { SharedServices } from './runtime.ts';

/** The parts that last, and those that a reload makes again. */
export interface StageDeps extends SharedServices {
  readonly config: Config;
  readonly catalog: Catalog;
  readonly catalogOf: CatalogOf;
  readonly admission: Admission;
  /** Which of the addresses that users give may be called. */
  readonly addressPolicy: AddressPolicy;
}

/** The steps of gateway.ts, each tied to the parts it works on. */
export function createStages(deps: StageDeps): Stages {
  const { config, catalog, catalogOf, admission, accounting, cache, idempotency } = deps;
  const { health, telemetry, deadlines, answerMemoryBudget, addressPolicy, unknownModelNames } =
    deps;
  const attemptDeps = {
    deadlines,
    telemetry,
    answerMemoryBudget,
    addressPolicy,
    fetchGuarded: createGuardedFetch(addressPolicy),
    checkAddress: checkBy(addressPolicy),
  };
  const money = {
    creditsPerUsd: config.creditsPerUsd,
    hold: accounting.hold.bind(accounting),
    dispatched: accounting.dispatched.bind(accounting),
    saveSettlement: accounting.saveSettlement.bind(accounting),
    saveWithAnswer: accounting.saveWithAnswer.bind(accounting),
    nameOf: (requested: string, tenantId: string, answered: string | null) =>
      requested === '' || catalog.model(withoutSuffix(requested))
        ? requested
        : unknownModelNames.recordedAs(tenantId, requested, answered ?? undefined),
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
    acquireSlot: ({ caller }) => admission.enter(caller),
    findReplay: (call, operation) => findReplay(call, operation, replayDeps),
    plan({ caller }, operation) {
      refusePrivateAddresses(operation.request.addresses, addressPolicy);
      const callable = catalogOf(caller.tenantId);
      return callable instanceof Promise
        ? callable.then((catalog) => planWith(catalog, caller, operation, health))
        : planWith(callable, caller, operation, health);
    },
    reserve: (call, operation, offers) => reserve(call, operation, offers, money),
    openFirst(call, operation, reservation) {
      let context: AttemptContext | undefined;
      const tryAt = (offer: Offer) => {
        context?.releaseMemory();
        const affordable = reservation.capFor(offer);
        call.recordingSession?.recorder.setCapped(affordable !== null);
        const cap = affordable ?? reservation.defaultCapFor(offer);
        context = new CallAttemptContext(call, offer, cap, attemptDeps);
        return operation.tryAt(offer, context);
      };
      const offers = withProbe(reservation.offers, operation.request.preferences, health);
      return openFirst(offers, tryAt, health, call);
    },
    settle: (call, ending) => settle(call, ending, money),
    reportLateError: ({ requestId }, error) => telemetry.reportLateError(requestId, error),
  };
}

function planWith(
  catalog: CallableModels,
  caller: Caller,
  operation: Operation,
  health: Health,
): readonly Offer[] {
  const planContext = { catalog, health, operation, supports: supportsParameter };
  const entitled = entitledOffers(plan(operation.request, caller, planContext), operation.request);
  return operation.refine?.(entitled) ?? entitled;
}

type AttemptDeps = Pick<AttemptContext, 'fetchGuarded' | 'checkAddress' | 'addressPolicy'> &
  Pick<SharedServices, 'deadlines' | 'telemetry' | 'answerMemoryBudget'>;

const headerSafeName = /^[\w.[\]-]{1,64}$/;

/** One try at one offer, tied to the call it is made for. */
class CallAttemptContext implements AttemptContext {
  readonly identity: AttemptContext['identity'];
  readonly outputTokensMax: number | null;
  readonly client: AbortSignal;
  readonly deadlines: DeadlineWatcher;
  readonly recorder: AttemptContext['recorder'];
  readonly fetchGuarded: GuardedFetch;
  readonly traceparent: string | undefined;
  readonly checkAddress: CheckAddress;
  readonly addressPolicy: AddressPolicy;
  readonly #call: Call;
  readonly #answerMemoryBudget: MemoryBudget;
  #memoryReservation: MemoryReservation | undefined;

  constructor(call: Call, offer: Offer, cap: number | null, deps: AttemptDeps) {
    this.#call = call;
    this.#answerMemoryBudget = deps.answerMemoryBudget;
    const { id, model, created } = identityOf(call, offer.model.id);
    this.identity = { id, model, created, provider: offer.provider.name };
    this.outputTokensMax = cap;
    this.client = call.client;
    this.deadlines = deps.deadlines;
    this.recorder = call.recordingSession?.recorder;
    this.fetchGuarded = deps.fetchGuarded;
    this.checkAddress = deps.checkAddress;
    this.addressPolicy = deps.addressPolicy;
    this.traceparent = deps.telemetry.attemptStarted(call);
  }

  reportDropped(parameters: readonly string[]): void {
    const { headers } = this.#call;
    if (parameters.length === 0 && !(droppedParamsHeader in headers)) return;
    // A client names its own fields, and not every name can stand in a header.
    const listed = parameters.filter((one) => headerSafeName.test(one)).slice(0, droppedNamesMax);
    if (listed.length > 0) headers[droppedParamsHeader] = listed.join(', ');
    else delete headers[droppedParamsHeader];
    this.recorder?.setDropped(headers[droppedParamsHeader]);
  }

  reserveMemory(bytes: number): void {
    // Of several requests made at once for a call, the first to fail ends it; others come late.
    if (!this.#call.releaseSlot) throw new GatewayError('upstream_error', 'The request has ended.');
    this.#memoryReservation ??= reserveForRequest(this.#call, this.#answerMemoryBudget);
    this.#memoryReservation.reserve(bytes);
  }

  releaseMemory(): void {
    this.#memoryReservation?.release();
  }

  async extendHold(credits: number): Promise<boolean> {
    // Without the store a search is not made; the answer goes on without it.
    const more = await this.#call.hold?.extend(credits).catch(() => null);
    return more !== undefined && more !== null;
  }

  async spendableCredits(enough: number): Promise<number> {
    return (await this.#call.hold?.maxCredits(enough)) ?? 0;
  }
}
