import { attemptMsMax } from '../../core/bounds.ts';
import { invalidRequest, notFound } from '../../core/errors.ts';
import { requestIdTime, toRequestId } from '../../core/ids.ts';
import { promptTokens } from '../../core/usage.ts';
import { type RequestRecord, totalCharge } from '../../record/request-record.ts';
import { customerDocs } from '../openapi/customer.ts';
import { json } from '../reply.ts';
import type { Route } from '../routes.ts';

export interface GenerationParts {
  find(tenantId: string, requestId: string): Promise<RequestRecord | undefined>;
}

/** Processes book in batches: what another one has answered can be found a moment later. */
const bookedElsewhereMs = 2_000;
const lookAgainMs = 100;

/** What became of one request, by its id or by the completion id made from it. */
export function generationRoutes(parts: GenerationParts): Route[] {
  return [
    {
      method: 'GET',
      path: '/v1/generation',
      doc: customerDocs.generation,
      access: 'either',
      handle: async (exchange, caller) => {
        const id = exchange.query.get('id');
        if (!id) throw invalidRequest('id is required: the x-request-id of a request.', 'id');
        const record = await patientFind(parts, caller.tenantId, toRequestId(id));
        if (!record) throw notFound('There is no request with this id.', 'id');
        return json(exchange, { data: generation(record) });
      },
    },
  ];
}

/** Looks again for a request that may have ended just now, in another process. */
async function patientFind(parts: GenerationParts, tenantId: string, requestId: string) {
  const mayBeWaiting = Math.abs(Date.now() - requestIdTime(requestId)) <= attemptMsMax;
  const giveUpAt = performance.now() + (mayBeWaiting ? bookedElsewhereMs : 0);
  for (;;) {
    const record = await parts.find(tenantId, requestId);
    if (record || performance.now() >= giveUpAt) return record;
    await Bun.sleep(lookAgainMs);
  }
}

function generation(record: RequestRecord) {
  const { usage } = record;
  const cost = totalCharge(record.charges);
  return {
    id: record.requestId,
    model: record.model ?? record.requestedModel,
    provider_name: record.provider ?? '',
    created_at: new Date(record.createdAt).toISOString(),
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
