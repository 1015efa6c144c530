import { tracesWaitingMax } from '../core/bounds.ts';
import { counter, type Family, gauge } from './exposition.ts';
import { type Log, reason } from './log.ts';
import { type Resource, type Span, writeSpans } from './otlp.ts';

/** Traces are looked at minutes later; a second gathers enough of them for one call. */
const pauseMs = 1_000;
const batchMax = 500;
/** A collector that is away is asked less and less often. */
const retryMsMax = 30_000;

interface TraceExportParts {
  readonly resource: Resource;
  /** Answers the collector's status; rejects when it cannot be reached. */
  send(body: string): Promise<number>;
  readonly log: Pick<Log, 'warn' | 'info'>;
}

/** Takes spans to a collector in the background. Whatever the collector does, requests go on. */
export class TraceExport {
  readonly #parts: TraceExportParts;
  /** The spans of one request stay together. */
  #waiting: (readonly Span[])[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sending: Promise<boolean> | undefined;
  #dropped = 0;
  #failures = 0;

  constructor(parts: TraceExportParts) {
    this.#parts = parts;
  }

  add(spans: readonly Span[]): void {
    if (this.#waiting.length >= tracesWaitingMax) {
      this.#dropped += 1;
      return;
    }
    this.#waiting.push(spans);
    this.#timer ??= setTimeout(() => void this.#round(), pauseMs);
  }

  families(): Family[] {
    const waiting = 'Traces that the collector has not taken yet.';
    const dropped = 'Traces dropped: the collector was away for too long, or refused them.';
    return [
      gauge('tollgate_traces_waiting', waiting, this.#waiting.length),
      counter('tollgate_traces_dropped_total', dropped, this.#dropped),
    ];
  }

  /** One last try with everything that is left. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#sending;
    while (this.#waiting.length > 0 && (await this.#sendBatch()));
    clearTimeout(this.#timer);
  }

  async #round(): Promise<void> {
    this.#sending = this.#sendBatch();
    await this.#sending;
    this.#sending = undefined;
    const pause = Math.min(pauseMs * 2 ** this.#failures, retryMsMax);
    this.#timer =
      this.#waiting.length > 0 ? setTimeout(() => void this.#round(), pause) : undefined;
  }

  /** Answers whether the next batch may be sent, too. */
  async #sendBatch(): Promise<boolean> {
    const batch = this.#waiting.slice(0, batchMax);
    const failure = await this.#trySend(batch.flat());
    if (failure === 'again') return false;
    this.#waiting = this.#waiting.slice(batch.length);
    if (failure === 'never') this.#dropped += batch.length;
    return failure === undefined;
  }

  /** Undefined once taken; else whether the same spans could be taken later. */
  async #trySend(spans: readonly Span[]): Promise<'again' | 'never' | undefined> {
    const { send, resource, log } = this.#parts;
    let why: string;
    let isLasting = false;
    try {
      const status = await send(writeSpans(spans, resource));
      if (status >= 200 && status < 300) {
        if (this.#failures > 0) log.info('traces_exported_again');
        this.#failures = 0;
        return undefined;
      }
      why = `The collector answered with ${status}.`;
      isLasting = status < 500 && status !== 408 && status !== 429;
    } catch (thrown) {
      why = reason(thrown);
    }
    // One line per outage: a log that fills because of traces would be the worse failure.
    if (this.#failures === 0) log.warn('traces_not_exported', { reason: why });
    this.#failures += 1;
    return isLasting ? 'never' : 'again';
  }
}
