import { invalidRequest, notFound } from '../../core/errors.ts';
import { toRequestId } from '../../core/ids.ts';
import { promptTokens } from '../../core/usage.ts';
import { patientFind } from '../../record/patient-find.ts';
import { isoTime } from '../../record/period.ts';
import type { RequestLog } from '../../record/request-log.ts';
import { type RequestRecord, totalCharge } from '../../record/request-record.ts';
import { customerDocs } from '../openapi/customer.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';

const either = routesFor({ access: 'either' });

/** What became of one request, by its id or by the completion id made from it. */
export function generationRoutes(requests: RequestLog): Route[] {
  return [
    either.get('/v1/generation', customerDocs.generation, async (exchange, caller) => {
      const id = exchange.query.get('id');
      if (!id) throw invalidRequest('id is required: the x-request-id of a request.', 'id');
      const find = (requestId: string) => requests.find(caller.tenantId, requestId);
      const record = await patientFind(toRequestId(id), find);
      if (!record) throw notFound('There is no request with this id.', 'id');
      return json(exchange, { data: generation(record) });
    }),
  ];
}

function generation(record: RequestRecord) {
  const { usage } = record;
  const cost = totalCharge(record.charges);
  return {
    id: record.requestId,
    model: record.model ?? record.requestedModel,
    provider_name: record.provider ?? '',
    created_at: isoTime(record.createdAt),
    tokens_prompt: promptTokens(usage),
    tokens_completion: usage.outputTokens,
    latency: record.firstByteMs ?? record.durationMs,
    generation_time: record.durationMs,
    finish_reason: record.finishReason ?? '',
    total_cost: cost,
    usage: cost,
    streamed: record.streamed,
    cancelled: record.cancelled,
    native_tokens_prompt: record.usageEstimated ? null : promptTokens(usage),
    native_tokens_completion: record.usageEstimated ? null : usage.outputTokens,
  };
}
