import { tracesOpenMax } from '../core/bounds.ts';
import { promptTokens, writtenTokens } from '../core/usage.ts';
import { totalCharge } from '../money/price/fee-kinds.ts';
import type { EndedAttempt, EndedRequest } from './ended-request.ts';
import type { Span } from './trace-export.ts';

/** The `traceparent` header of W3C Trace Context. */
interface TraceParent {
  /** 32 and 16 hexadecimal digits. */
  readonly traceId: string;
  readonly spanId: string;
  readonly sampled: boolean;
}

const shape = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Returns undefined for an invalid header. A new trace then begins at this gateway. */
export function readTraceParent(header: string | null | undefined): TraceParent | undefined {
  const [, version, traceId = '', spanId = '', flags = '', more] = shape.exec(header ?? '') ?? [];
  // Later versions may have more fields after these four, but version 00 must not.
  if (version === undefined || version === 'ff' || (version === '00' && more)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

function writeTraceParent({ traceId, spanId, sampled }: TraceParent): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
}

function newTraceId(): string {
  return randomHex(16);
}

function newSpanId(): string {
  return randomHex(8);
}

function randomHex(bytes: number): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString('hex');
}

/** This gateway's part of a trace. Attribute names are OpenTelemetry's. */
interface RequestTrace {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  /** Epoch milliseconds of arrival. */
  readonly startMs: number;
  /** One per attempt, in order. */
  readonly attempts: readonly { readonly spanId: string; readonly startMs: number }[];
}

function spansOf(trace: RequestTrace, request: EndedRequest): Span[] {
  const endMs = trace.startMs + request.durationMs;
  const attempts = request.attempts.flatMap((attempt, index) => {
    const begun = trace.attempts[index];
    return begun ? [attemptSpan(trace, begun, attempt, request, endMs)] : [];
  });
  return [requestSpan(trace, request, endMs), ...attempts];
}

function requestSpan(trace: RequestTrace, request: EndedRequest, endMs: number): Span {
  const { traceId, spanId, parentSpanId, startMs } = trace;
  const { usage, operation, requestedModel, finishReason } = request;
  return {
    traceId,
    spanId,
    ...(parentSpanId === undefined ? {} : { parentSpanId }),
    name: `${operation} ${request.model ?? requestedModel}`.trim(),
    kind: 'server',
    startMs,
    endMs,
    failed: request.status === 'error',
    attributes: {
      'gen_ai.operation.name': operation,
      'gen_ai.request.model': requestedModel,
      'gen_ai.response.model': request.model,
      'gen_ai.provider.name': request.provider,
      'gen_ai.response.finish_reasons': finishReason === null ? null : [finishReason],
      'gen_ai.usage.input_tokens': promptTokens(usage),
      'gen_ai.usage.output_tokens': usage.outputTokens,
      'gen_ai.usage.cache_read.input_tokens': usage.cacheReadTokens,
      'gen_ai.usage.cache_creation.input_tokens': writtenTokens(usage),
      'error.type': request.error,
      'tollgate.request_id': request.requestId,
      'tollgate.tenant': request.tenantId,
      'tollgate.key': request.keyId,
      'tollgate.traffic_mode': request.trafficMode,
      'tollgate.credits': totalCharge(request.charges),
      'tollgate.cache_hit': request.cacheHit,
      'tollgate.streamed': request.streamed,
      'tollgate.cancelled': request.cancelled,
      'tollgate.first_byte_ms': request.firstByteMs,
    },
  };
}

/** The span of a successful streaming attempt ends with its answer, not at the first output. */
function attemptSpan(
  { traceId, spanId }: RequestTrace,
  begun: RequestTrace['attempts'][number],
  attempt: EndedAttempt,
  { operation, streamed }: EndedRequest,
  endMs: number,
): Span {
  const answered = attempt.outcome === 'answered';
  return {
    traceId,
    spanId: begun.spanId,
    parentSpanId: spanId,
    name: `${operation} ${attempt.provider}`,
    kind: 'client',
    startMs: begun.startMs,
    endMs: answered && streamed ? endMs : begun.startMs + attempt.ms,
    failed: !answered,
    attributes: {
      'gen_ai.operation.name': operation,
      'gen_ai.provider.name': attempt.provider,
      'gen_ai.request.model': attempt.model,
      'http.response.status_code': attempt.status,
      'error.type': answered ? null : attempt.outcome,
    },
  };
}

/** The part of a call that tracing uses. */
export interface TracedCall {
  readonly requestId: string;
  /** Epoch milliseconds of arrival, and the same moment on the monotonic clock. */
  readonly receivedAt: number;
  readonly startedAt: number;
  /** The client's `traceparent` header. */
  readonly traceparent?: string | null;
}

interface OpenTrace extends RequestTrace {
  readonly sampled: boolean;
  readonly attempts: { readonly spanId: string; readonly startMs: number }[];
}

/** Traces requests from arrival to end. */
export class Tracer {
  readonly #add: (spans: readonly Span[]) => void;
  readonly #open = new Map<string, OpenTrace>();

  constructor(add: (spans: readonly Span[]) => void) {
    this.#add = add;
  }

  /** A client's `traceparent` also decides whether the request is sampled. */
  requestStarted({ requestId, receivedAt, traceparent }: TracedCall): void {
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

  /** Records an attempt. Returns the `traceparent` header for its provider. */
  attemptStarted({ requestId, receivedAt, startedAt }: TracedCall): string | undefined {
    const trace = this.#open.get(requestId);
    if (!trace) return undefined;
    const spanId = newSpanId();
    const startMs = receivedAt + (performance.now() - startedAt);
    trace.attempts.push({ spanId, startMs });
    return writeTraceParent({ traceId: trace.traceId, spanId, sampled: trace.sampled });
  }

  requestEnded(request: EndedRequest): void {
    const trace = this.#open.get(request.requestId);
    if (!trace) return;
    this.#open.delete(request.requestId);
    if (trace.sampled) this.#add(spansOf(trace, request));
  }
}
