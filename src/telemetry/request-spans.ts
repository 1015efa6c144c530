import { promptTokens, writtenTokens } from '../core/usage.ts';
import { totalCharge } from '../record/request-record.ts';
import type { EndedAttempt, EndedRequest } from './ended-request.ts';
import type { Span } from './otlp.ts';

/** One trace of one request as far as it happened here. Attribute names are OpenTelemetry's. */
export interface RequestTrace {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  /** Epoch milliseconds of arrival. */
  readonly startMs: number;
  /** One per attempt, in order. */
  readonly attempts: readonly { readonly spanId: string; readonly startMs: number }[];
}

export function spansOf(trace: RequestTrace, request: EndedRequest): Span[] {
  const endMs = trace.startMs + request.durationMs;
  const attempts = request.attempts.flatMap((attempt, at) => {
    const begun = trace.attempts[at];
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

/** An attempt that answered lasts as long as its answer; the trail counts to its first words. */
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
