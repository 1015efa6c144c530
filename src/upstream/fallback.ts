import { type Call, droppedParamsHeader, identityOf } from '../call.ts';
import { attemptsMax, droppedNamesMax } from '../core/bounds.ts';
import type { DeadlineWatcher } from '../core/deadlines.ts';
import { GatewayError } from '../core/errors.ts';
import type { FailureKind } from '../dialects/dialect.ts';
import {
  type MemoryBudget,
  type MemoryReservation,
  reserveForRequest,
} from '../limits/memory-budget.ts';
import type { AttemptRecord } from '../records/request-record.ts';
import type { Offer } from '../route/catalog.ts';
import type { Health } from '../route/health.ts';
import type { AttemptContext, AttemptResult } from './attempt.ts';
import { finalError, isAccessProblem, redact, type TriedFailure } from './failure-message.ts';

export interface AttemptEntry extends AttemptRecord {
  readonly outcome: 'answered' | 'client_disconnected' | FailureKind;
}

export interface OpenedAnswer {
  readonly offer: Offer;
  readonly answer: Exclude<AttemptResult, { kind: 'failed' }>;
  readonly firstByteMs: number;
}

/** The request that the attempts belong to. */
interface AttemptLog {
  readonly attempts: AttemptEntry[];
  readonly clientSignal: AbortSignal;
}

/**
 * Tries the offers of a plan in order until one returns output. After that, a second provider could
 * contradict the first.
 */
export async function tryOffers(
  plan: readonly Offer[],
  tryAt: (offer: Offer) => Promise<AttemptResult>,
  health: Health,
  { attempts, clientSignal }: AttemptLog,
): Promise<OpenedAnswer> {
  const failures: TriedFailure[] = [];
  // A list, because `route: sort` mixes the offers of several models.
  const rejectedModels: string[] = [];
  for (const offer of plan) {
    const model = offer.model.id;
    if (rejectedModels.includes(model)) continue;
    if (attempts.length >= attemptsMax) break;
    const startedAt = performance.now();
    let result: AttemptResult;
    try {
      result = await tryAt(offer);
    } catch (error) {
      // Provider failures are returned, so this is an internal error.
      health.rejected(offer);
      throw error;
    }
    const ms = Math.round(performance.now() - startedAt);
    const isOwnAccount = offer.ownAccount !== null;
    const base = { provider: offer.provider.name, model, own_account: isOwnAccount || undefined };
    if (result.kind !== 'failed') {
      attempts.push({ ...base, ms, outcome: 'answered', status: 200, message: null });
      health.succeeded(offer, ms);
      return { offer, answer: result, firstByteMs: ms };
    }
    // The client disconnected, so don't count this against the provider's health.
    if (clientSignal.aborted) {
      attempts.push({ ...base, ms, outcome: 'client_disconnected', status: null, message: null });
      throw new GatewayError('upstream_error', 'The client closed the connection.');
    }
    const { failure } = result;
    const { kind, status } = failure;
    const message = redact(failure.message, offer);
    const param = failure.param && redact(failure.param, offer);
    attempts.push({ ...base, ms, outcome: kind, status, message });
    const tried = { ...failure, message, param, isOwnAccount };
    failures.push(tried);
    // An invalid request says nothing about the offer's health. Other providers of the same model
    // would reject it, too, but another model may have other limits.
    if (kind === 'request') health.rejected(offer);
    else health.failed(offer);
    if (kind === 'request' && !isAccessProblem(tried)) rejectedModels.push(model);
  }
  throw finalError(failures);
}

/** The services that all attempts share. */
interface AttemptDeps
  extends Pick<AttemptContext, 'deadlines' | 'fetchGuarded' | 'checkAddress' | 'addressPolicy'> {
  readonly telemetry: {
    /** Starts the attempt's span. Returns its `traceparent`, or undefined without tracing. */
    attemptStarted(call: Call): string | undefined;
  };
  readonly answerMemoryBudget: MemoryBudget;
}

/** Client-defined field names that are safe to list in a response header. */
const headerSafeName = /^[\w.[\]-]{1,64}$/;

/** The context of one attempt at one offer, which acts on the call that the attempt belongs to. */
export class CallAttemptContext implements AttemptContext {
  readonly identity: AttemptContext['identity'];
  readonly outputTokensMax: number | null;
  readonly clientSignal: AbortSignal;
  readonly deadlines: DeadlineWatcher;
  readonly recorder: AttemptContext['recorder'];
  readonly traceparent: string | undefined;
  readonly fetchGuarded: AttemptContext['fetchGuarded'];
  readonly checkAddress: AttemptContext['checkAddress'];
  readonly addressPolicy: AttemptContext['addressPolicy'];
  readonly #call: Call;
  readonly #answerMemoryBudget: MemoryBudget;
  #memoryReservation: MemoryReservation | undefined;

  constructor(call: Call, offer: Offer, outputTokensMax: number | null, deps: AttemptDeps) {
    this.#call = call;
    this.#answerMemoryBudget = deps.answerMemoryBudget;
    const { id, model, created } = identityOf(call, offer.model.id);
    this.identity = { id, model, created, provider: offer.provider.name };
    this.outputTokensMax = outputTokensMax;
    this.clientSignal = call.clientSignal;
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
    const listed = parameters.filter((name) => headerSafeName.test(name)).slice(0, droppedNamesMax);
    if (listed.length > 0) headers[droppedParamsHeader] = listed.join(', ');
    else delete headers[droppedParamsHeader];
    this.recorder?.setDropped(headers[droppedParamsHeader]);
  }

  reserveMemory(bytes: number): void {
    // When one of a call's parallel upstream requests fails, the call ends while others still run.
    if (!this.#call.releaseSlot) {
      throw new GatewayError('upstream_error', 'The request has already ended.');
    }
    this.#memoryReservation ??= reserveForRequest(this.#call, this.#answerMemoryBudget);
    this.#memoryReservation.reserve(bytes);
  }

  releaseMemory(): void {
    this.#memoryReservation?.release();
  }

  async extendHold(credits: number): Promise<boolean> {
    // If the store is unreachable, the search is skipped and the answer continues without it.
    const extended = await this.#call.hold?.extend(credits).catch(() => null);
    return extended !== undefined && extended !== null;
  }

  async spendableCredits(atLeast: number): Promise<number> {
    return (await this.#call.hold?.maxCredits(atLeast)) ?? 0;
  }
}
