import { type Call, droppedParamsHeader, identityOf } from '../call.ts';
import { droppedNamesMax } from '../core/bounds.ts';
import type { DeadlineWatcher } from '../core/deadlines.ts';
import { GatewayError } from '../core/errors.ts';
import type { UrlInput } from '../core/request-info.ts';
import {
  type FairShareBudget,
  type MemoryReservation,
  reserveForRequest,
} from '../limits/memory-budget.ts';
import type { Offer } from '../route/catalog.ts';
import type { AttemptContext } from './attempt.ts';
import type { GuardedFetch } from './guard/guarded-fetch.ts';
import { resolverFor } from './guard/host-names.ts';
import { guardTarget } from './guard/pinned-call.ts';
import { inlineImages } from './request-urls.ts';

/** The services that all attempts share. */
interface AttemptDeps extends Pick<AttemptContext, 'deadlines' | 'addressPolicy'> {
  readonly telemetry: {
    /** Starts the attempt's span. Returns its `traceparent`, or undefined without tracing. */
    attemptStarted(call: Call): string | undefined;
  };
  readonly fetchGuarded: GuardedFetch;
  readonly bodyMemoryBudget: FairShareBudget;
  readonly answerMemoryBudget: FairShareBudget;
}

/** Client-defined field names that are safe to list in a response header. */
const headerSafeName = /^[\w.[\]-]{1,64}$/;

/** The context of one attempt at one offer. Its methods act on the call that is being attempted. */
export class CallAttemptContext implements AttemptContext {
  readonly identity: AttemptContext['identity'];
  readonly tenantId: string;
  readonly outputTokensMax: number | null;
  readonly clientSignal: AbortSignal;
  readonly deadlines: DeadlineWatcher;
  openBy: number;
  readonly recorder: AttemptContext['recorder'];
  readonly traceparent: string | undefined;
  readonly addressPolicy: AttemptContext['addressPolicy'];
  readonly #call: Call;
  readonly #deps: AttemptDeps;
  #memoryReservation: MemoryReservation | undefined;

  constructor(
    call: Call,
    offer: Offer,
    { outputTokensMax, openBy }: Pick<AttemptContext, 'outputTokensMax' | 'openBy'>,
    deps: AttemptDeps,
  ) {
    this.#call = call;
    this.#deps = deps;
    const { id, model, created } = identityOf(call, offer.model.id);
    this.identity = { id, model, created, provider: offer.provider.name };
    this.tenantId = call.caller.tenantId;
    this.outputTokensMax = outputTokensMax;
    this.openBy = openBy;
    this.clientSignal = call.clientSignal;
    this.deadlines = deps.deadlines;
    this.recorder = call.recordingSession?.recorder;
    this.addressPolicy = deps.addressPolicy;
    this.traceparent = deps.telemetry.attemptStarted(call);
  }

  reportDropped(parameters: readonly string[]): void {
    const { headers } = this.#call;
    if (parameters.length === 0 && !(droppedParamsHeader in headers)) return;
    const listed = parameters.filter((name) => headerSafeName.test(name)).slice(0, droppedNamesMax);
    this.#call.droppedFields = listed.length > 0 ? listed : undefined;
    if (listed.length > 0) headers[droppedParamsHeader] = listed.join(', ');
    else delete headers[droppedParamsHeader];
    this.recorder?.setDropped(headers[droppedParamsHeader]);
  }

  checkAddress(url: string): ReturnType<typeof guardTarget> {
    return guardTarget(url, this.addressPolicy, resolverFor(this.tenantId));
  }

  fetchGuarded(...[url, options]: Parameters<AttemptContext['fetchGuarded']>) {
    return this.#deps.fetchGuarded(url, { ...options, tenantId: this.tenantId });
  }

  inlineImages(images: readonly UrlInput[]): Promise<ReadonlyMap<string, string>> {
    this.#call.inlinedImages ??= this.#download(images);
    return this.#call.inlinedImages;
  }

  #download(images: readonly UrlInput[]): Promise<ReadonlyMap<string, string>> {
    // The bytes become part of the body for the provider, like those that clients send inline.
    const reservation = reserveForRequest(this.#call, this.#deps.bodyMemoryBudget);
    return inlineImages(images, {
      signal: this.clientSignal,
      fetchGuarded: (url, options) => this.fetchGuarded(url, options),
      reserveMemory: (bytes) => {
        this.#requireRunning();
        reservation.reserve(bytes);
      },
    });
  }

  reserveMemory(bytes: number): void {
    this.#requireRunning();
    this.#memoryReservation ??= reserveForRequest(this.#call, this.#deps.answerMemoryBudget);
    this.#memoryReservation.reserve(bytes);
  }

  /**
   * When one of a call's parallel requests fails, the call ends while others still run. Memory that
   * they reserved would never be released.
   */
  #requireRunning(): void {
    if (this.#call.releaseSlot) return;
    throw new GatewayError('upstream_error', 'The request has already ended.');
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
