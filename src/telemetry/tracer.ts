import { tracesOpenMax } from '../core/bounds.ts';
import type { EndedRequest } from './ended-request.ts';
import type { Span } from './otlp.ts';
import { type RequestTrace, spansOf } from './request-spans.ts';
import { newSpanId, newTraceId, readTraceParent, writeTraceParent } from './traceparent.ts';

/** As much of a call as its trace needs. */
export interface TracedCall {
  readonly requestId: string;
  /** Epoch milliseconds of arrival, and the same moment on the monotonic clock. */
  readonly receivedAt: number;
  readonly startedAt: number;
  /** The header of this name, as it came. */
  readonly traceparent?: string | null;
}

interface OpenTrace extends RequestTrace {
  readonly sampled: boolean;
  readonly attempts: { readonly spanId: string; readonly startMs: number }[];
}

/** Follows requests from their arrival to their end. */
export class Tracer {
  readonly #add: (spans: readonly Span[]) => void;
  readonly #open = new Map<string, OpenTrace>();

  constructor(add: (spans: readonly Span[]) => void) {
    this.#add = add;
  }

  /** A client that traces decides for us too whether this request is kept. */
  begun({ requestId, receivedAt, traceparent }: TracedCall): void {
    if (this.#open.size >= tracesOpenMax) return;
    const parent = readTraceParent(traceparent);
    this.#open.set(requestId, {
      traceId: parent?.traceId ?? newTraceId(),
      spanId: newSpanId(),
      parentSpanId: parent?.spanId,
      sampled: parent?.sampled ?? true,
      startMs: receivedAt,
      attempts: [],
    });
  }

  /** Notes an attempt; answers the header by which its provider can go on with the trace. */
  attempting({ requestId, receivedAt, startedAt }: TracedCall): string | undefined {
    const trace = this.#open.get(requestId);
    if (!trace) return undefined;
    const spanId = newSpanId();
    const startMs = receivedAt + (performance.now() - startedAt);
    trace.attempts.push({ spanId, startMs });
    return writeTraceParent({ traceId: trace.traceId, spanId, sampled: trace.sampled });
  }

  ended(request: EndedRequest): void {
    const trace = this.#open.get(request.requestId);
    if (!trace) return;
    this.#open.delete(request.requestId);
    if (trace.sampled) this.#add(spansOf(trace, request));
  }
}
