import { customerDocs, type GenerationObject } from '../../contract/customer.ts';
import { invalidRequest, notFound } from '../../core/errors.ts';
import { toRequestId } from '../../core/ids.ts';
import { promptTokens } from '../../core/usage.ts';
import { totalCharge } from '../../money/price/fee-kinds.ts';
import { findInAnyProcess, type RequestLog } from '../../records/customer-log.ts';
import { isoTime } from '../../records/period.ts';
import type { RequestRecord } from '../../records/request-record.ts';
import { type RunningRequests, unfinishedRecord } from '../../records/running-requests.ts';
import { openRouterGeneration } from '../openrouter.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';

interface GenerationDeps extends RequestLog {
  readonly running: Pick<RunningRequests, 'find' | 'isOnlyHere'>;
  readonly creditsPerUsd: number;
}

const anyKey = routesFor({ access: 'either' });

/** Returns the outcome of a request, by its request ID or completion ID. */
export function generationRoutes(deps: GenerationDeps): Route[] {
  const { running, creditsPerUsd } = deps;
  return [
    anyKey.get('/v1/generation', customerDocs.generation, async (exchange, { tenantId }) => {
      const id = exchange.query.get('id');
      if (!id)
        throw invalidRequest('id is required. Set it to the x-request-id of a request.', 'id');
      const found = await findInAnyProcess(toRequestId(id), {
        record: async (requestId) => {
          const record = await deps.find(tenantId, requestId);
          return record && { record, status: record.status };
        },
        running: async (requestId) => {
          const request = await running.find(requestId, tenantId);
          return request && { record: unfinishedRecord(request, Date.now()), status: inProgress };
        },
        isOnlyHere: (requestId) => running.isOnlyHere(requestId),
      });
      if (!found) throw notFound('There is no request with this ID.', 'id');
      const { record, status } = found;
      const generation = generationObject(record, status);
      const data = exchange.openRouterStyle
        ? openRouterGeneration(generation, record, creditsPerUsd)
        : generation;
      return json(exchange, { data });
    }),
  ];
}

const inProgress: GenerationObject['status'] = 'in_progress';

function generationObject(
  record: RequestRecord,
  status: GenerationObject['status'],
): GenerationObject {
  const { usage } = record;
  const cost = totalCharge(record.charges);
  return {
    id: record.requestId,
    status,
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
