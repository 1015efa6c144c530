import { findCaller } from '../../auth/authenticate.ts';
import { findTenant } from '../../auth/management/tenants.ts';
import type { TenantDirectory } from '../../auth/tenant-directory.ts';
import type { Operation } from '../../call.ts';
import {
  adminExplainQuery,
  type ExcludedOfferObject,
  type ExplainedEndpoint,
  explainDocs,
  explainQuery,
  type PlannedOfferObject,
  type RouteExplanationObject,
} from '../../contract/explain.ts';
import type { Caller } from '../../core/caller.ts';
import { invalidRequest } from '../../core/errors.ts';
import { definedFields } from '../../core/json.ts';
import { SpeechOperation } from '../../operations/speech/speech-operation.ts';
import type { Offer } from '../../route/catalog.ts';
import type { Exclusion, ExplainedOffer, RouteExplanation } from '../../route/explain.ts';
import type { Health } from '../../route/health.ts';
import type { RequestedBy } from '../../route/requested-models.ts';
import { readParameter } from '../query.ts';
import { json } from '../reply.ts';
import { type Exchange, type Route, routesFor } from '../routes.ts';
import { readSpeech } from './audio.ts';
import {
  type ChatDeps,
  type ReadOperation,
  readChat,
  readMessages,
  readResponses,
} from './chat.ts';
import { readEmbeddings } from './embeddings.ts';
import { readGeneration } from './images.ts';
import { healthFields } from './models.ts';

export interface ExplainDeps extends ChatDeps {
  readonly directory: Pick<TenantDirectory, 'getKey' | 'getTenant'>;
  readonly health: Pick<Health, 'state' | 'observed'>;
  explain(operation: Operation, requestedBy: RequestedBy): Promise<RouteExplanation>;
}

const readers: Readonly<Record<ExplainedEndpoint, ReadOperation<ChatDeps>>> = {
  'chat/completions': readChat,
  messages: readMessages,
  responses: readResponses,
  embeddings: (incoming, _caller, deps) => readEmbeddings(incoming, deps),
  'images/generations': (incoming, _caller, deps) => readGeneration(incoming, deps),
  'audio/speech': async (incoming, _caller, deps) =>
    new SpeechOperation(await readSpeech(incoming, deps)),
};

const anyKey = routesFor({ access: 'either' });
const admin = routesFor({ access: 'admin' });

export function explainRoutes(deps: ExplainDeps): Route[] {
  return [
    anyKey.post('/v1/route/explain', explainDocs.own, async (exchange, caller) => {
      const explanation = await explainRequest(exchange, caller, deps);
      return json(exchange, { data: explanationObject(explanation, deps, false) });
    }),
    admin.post('/admin/v1/route/explain', explainDocs.admin, async (exchange) => {
      const caller = await readCaller(exchange, deps);
      const explanation = await explainRequest(exchange, caller, deps);
      return json(exchange, { data: explanationObject(explanation, deps, true) });
    }),
  ];
}

async function explainRequest(
  exchange: Exchange,
  caller: Caller,
  deps: ExplainDeps,
): Promise<RouteExplanation> {
  const endpoint =
    readParameter(exchange.query, 'endpoint', explainQuery.endpoint) ?? 'chat/completions';
  const reservation = deps.bodyMemoryBudget.openReservation(caller.tenantId);
  const incoming = {
    request: exchange.request,
    requestedModel: '',
    reserveMemory: (bytes: number) => reservation.reserve(bytes),
  };
  try {
    const operation = await readers[endpoint](incoming, caller, deps, exchange);
    const { headers } = exchange.request;
    return await deps.explain(operation, {
      caller,
      requestId: exchange.requestId,
      replayOptions: {
        idempotencyKey: headers.get('idempotency-key'),
      },
      clientHeader: (name) => headers.get(name),
    });
  } finally {
    reservation.release();
  }
}

/** Returns the caller that an operator asks about: a key, a tenant, or anybody. */
async function readCaller({ query }: Exchange, { directory }: ExplainDeps): Promise<Caller> {
  const tenantId = readParameter(query, 'tenant', adminExplainQuery.tenant);
  const keyId = readParameter(query, 'api_key_id', adminExplainQuery.api_key_id);
  if (tenantId === undefined) {
    if (keyId === undefined) return unrestricted('', null);
    throw invalidRequest('tenant is required if api_key_id is set.', 'tenant');
  }
  const { id, plan } = await findTenant(directory, tenantId);
  return keyId === undefined ? unrestricted(id, plan) : findCaller(directory, id, keyId);
}

/** A caller without a key. No tenant has the ID '', so it has no provider keys. */
function unrestricted(tenantId: string, plan: string | null): Caller {
  return {
    ...{ tenantId, plan, keyId: '', kind: 'routing', scopes: null, models: null },
    ...{ requestsPerMinute: null, tenantRequestsPerMinute: null, concurrentRequests: null },
    ...{ cacheMode: null, limitCredits: null, limitReset: null, expiresAt: null },
  };
}

function explanationObject(
  { models, plan, excluded, bound, error }: RouteExplanation,
  { health }: ExplainDeps,
  isOperator: boolean,
): RouteExplanationObject {
  return {
    models,
    plan: plan.map((planned) => plannedObject(planned, health, isOperator)),
    excluded: excluded.map((exclusion) => excludedObject(exclusion, isOperator)),
    hold: bound?.requested ?? null,
    max_charge: bound?.maximum ?? null,
    error: error && {
      status: error.status,
      type: error.symbol,
      message: error.message,
      param: error.param ?? null,
    },
  };
}

function plannedObject(
  { offer, lostFields, bound }: ExplainedOffer,
  health: ExplainDeps['health'],
  isOperator: boolean,
): PlannedOfferObject {
  const { long_prompts: _, ...pricing } = offer.pricing;
  return {
    model: offer.model.id,
    provider: offer.provider.name,
    traffic_mode: trafficModeOf(offer),
    ...upstreamModel(offer, isOperator),
    priority: offer.priority,
    weight: offer.weight,
    circuit: health.state(offer),
    ...healthFields(offer, health),
    pricing: definedFields(pricing),
    ...(isOperator && { margin: marginOf(offer) }),
    dropped: lostFields,
    hold: bound.requested,
    max_charge: bound.maximum,
  };
}

/** Returns what the plan of the tenant adds to list prices. Only operators see it. */
function marginOf({ margin }: Offer): Exclude<PlannedOfferObject['margin'], undefined> {
  if (!margin) return null;
  const { long_prompts: _, ...list } = margin.list;
  return {
    plan: margin.plan,
    factor_basis_points: margin.factorBasisPoints,
    surcharge: definedFields(margin.surcharge),
    list_prices: definedFields(list),
  };
}

function excludedObject(
  { model, provider, offer, reason }: Exclusion,
  isOperator: boolean,
): ExcludedOfferObject {
  const trafficMode = offer && trafficModeOf(offer);
  return {
    ...{ model, provider, traffic_mode: trafficMode },
    ...upstreamModel(offer, isOperator),
    reason,
  };
}

function trafficModeOf({ ownAccount }: Offer): 'byok' | 'shared' {
  return ownAccount ? 'byok' : 'shared';
}

function upstreamModel(offer: Offer | null, isOperator: boolean) {
  return isOperator && offer ? { upstream_model: offer.upstreamModel } : {};
}
