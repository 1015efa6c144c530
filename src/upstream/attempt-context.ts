import { type Call, droppedParamsHeader, identityOf } from '../call.ts';
import { droppedNamesMax } from '../core/bounds.ts';
import type { DeadlineWatcher } from '../core/deadlines.ts';
import { GatewayError } from '../core/errors.ts';
import {
  type MemoryBudget,
  type MemoryReservation,
  reserveForRequest,
} from '../limits/memory-budget.ts';
import type { Offer } from '../route/catalog.ts';
import type { AttemptContext } from './attempt.ts';

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

/** The context of one attempt at one offer. Its methods act on the call that is being attempted. */
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
