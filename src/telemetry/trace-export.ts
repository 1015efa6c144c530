import { tracesWaitingMax } from '../core/bounds.ts';
import { type Log, reason } from './log.ts';
import { counter, type Family, gauge } from './prometheus.ts';

// The wire format is OTLP/HTTP in JSON: IDs in hexadecimal, nanoseconds and integers as strings.

type AttributeValue = string | number | boolean | readonly string[] | null;

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: 'server' | 'client';
  /** Epoch milliseconds, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  /** Null values are omitted. */
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  readonly failed: boolean;
}

interface Resource {
  readonly serviceName: string;
  readonly version: string;
  readonly instanceId: string;
}

const kinds = { server: 2, client: 3 } as const;
const statusUnset = {};
const statusError = { code: 2 };

function writeSpans(spans: readonly Span[], resource: Resource): string {
  const { serviceName, version, instanceId } = resource;
  const attributes = {
    'service.name': serviceName,
    'service.version': version,
    'service.instance.id': instanceId,
  };
  const scopeSpans = [{ scope: { name: 'tollgate', version }, spans: spans.map(spanObject) }];
  return JSON.stringify({
    resourceSpans: [{ resource: { attributes: attributeList(attributes) }, scopeSpans }],
  });
}

function spanObject({ kind, startMs, endMs, attributes, failed, ...rest }: Span) {
  return {
    ...rest,
    kind: kinds[kind],
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(Math.max(startMs, endMs)),
    attributes: attributeList(attributes),
    status: failed ? statusError : statusUnset,
  };
}

function attributeList(attributes: Span['attributes']) {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === null ? [] : [{ key, value: valueObject(value) }],
  );
}

function valueObject(value: Exclude<AttributeValue, null>): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value !== 'number') {
    return { arrayValue: { values: value.map((stringValue) => ({ stringValue })) } };
  }
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** A double holds epoch milliseconds to the microsecond, not to the nanosecond. */
function nanoseconds(ms: number): string {
  return String(BigInt(Math.round(ms * 1000)) * 1000n);
}

/** Traces are read minutes later, so they are collected for 1 s and sent in one call. */
const pauseMs = 1_000;
const batchMax = 500;
/** The longest pause between calls to an unreachable collector. */
const retryMsMax = 30_000;

interface TraceExportDeps {
  readonly resource: Resource;
  /** Returns the collector's status. Rejects if it can't be reached. */
  send(body: string): Promise<number>;
  readonly log: Pick<Log, 'warn' | 'info'>;
}

/** Sends spans to a collector in the background, without affecting requests. */
export class TraceExport {
  readonly #deps: TraceExportDeps;
  /** Each element has the spans of one request, which are sent together. */
  #waiting: (readonly Span[])[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sending: Promise<boolean> | undefined;
  #dropped = 0;
  #failures = 0;

  constructor(deps: TraceExportDeps) {
    this.#deps = deps;
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
    const waiting = 'Traces waiting to be sent to the collector.';
    const dropped = 'Traces dropped because the collector was unreachable or rejected them.';
    return [
      gauge('tollgate_traces_waiting', waiting, this.#waiting.length),
      counter('tollgate_traces_dropped_total', dropped, this.#dropped),
    ];
  }

  /** Tries once more to send all waiting traces. */
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

  /** Returns whether the next batch may be sent. */
  async #sendBatch(): Promise<boolean> {
    const batch = this.#waiting.slice(0, batchMax);
    const failure = await this.#trySend(batch.flat());
    if (failure === 'temporary') return false;
    this.#waiting = this.#waiting.slice(batch.length);
    if (failure === 'permanent') this.#dropped += batch.length;
    return failure === undefined;
  }

  /** Returns undefined if the spans were accepted, or the kind of failure. */
  async #trySend(spans: readonly Span[]): Promise<'temporary' | 'permanent' | undefined> {
    const { send, resource, log } = this.#deps;
    let problem: string;
    let isPermanent = false;
    try {
      const status = await send(writeSpans(spans, resource));
      if (status >= 200 && status < 300) {
        if (this.#failures > 0) log.info('trace_export_recovered');
        this.#failures = 0;
        return undefined;
      }
      problem = `The collector returned status ${status}.`;
      isPermanent = status < 500 && status !== 408 && status !== 429;
    } catch (error) {
      problem = reason(error);
    }
    // One line per outage, so that failing traces don't fill the log.
    if (this.#failures === 0) log.warn('trace_export_failed', { reason: problem });
    this.#failures += 1;
    return isPermanent ? 'permanent' : 'temporary';
  }
}
