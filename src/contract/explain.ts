import { Type } from 'typebox';
import { nullable, oneOf } from '../core/schema.ts';
import {
  count,
  credits,
  data,
  inlineRecord,
  named,
  record,
  type Shape,
  text,
  trafficMode,
} from './fields.ts';
import { circuit, endpointHealth, endpointWeight } from './models.ts';
import type { RouteDoc } from './route-doc.ts';

// How a request would be routed.

/** The endpoints whose requests can be explained: those with JSON bodies. */
const explainedEndpoints = [
  'chat/completions',
  'messages',
  'responses',
  'embeddings',
  'images/generations',
  'audio/speech',
] as const;
export type ExplainedEndpoint = (typeof explainedEndpoints)[number];

const offerFields = {
  model: text('The alias.'),
  provider: text(),
  traffic_mode: trafficMode,
  upstream_model: Type.Optional(text("The provider's name for the model. Only for operators.")),
};

const boundFields = {
  hold: credits('Credits that would be held before the request is sent.'),
  max_charge: credits('The charge for the longest output that the request allows.'),
};

const prices = Type.Record(Type.String(), Type.String(), { description: 'US dollars, by name.' });

const plannedSchema = record('PlannedOffer', {
  ...offerFields,
  priority: count('The lowest is tried first.'),
  weight: endpointWeight,
  circuit,
  ...endpointHealth,
  pricing: Type.Record(Type.String(), Type.String(), {
    description: 'US dollars per million tokens, characters, or bytes; other prices are per unit.',
  }),
  margin: Type.Optional(
    nullable(
      inlineRecord({
        plan: text('The name of the plan.'),
        factor_basis_points: count('10000 is the list price.'),
        surcharge: prices,
        list_prices: prices,
      }),
    ),
  ),
  dropped: Type.Array(text(), {
    description: 'Fields and parts of the request that the provider would not receive.',
  }),
  ...boundFields,
});
export type PlannedOfferObject = Shape<typeof plannedSchema>;

const excludedSchema = record('ExcludedOffer', {
  model: offerFields.model,
  provider: nullable(text('Null if the entire model is excluded.')),
  traffic_mode: nullable(trafficMode),
  upstream_model: offerFields.upstream_model,
  reason: text('Why it would not be tried, in one sentence.'),
});
export type ExcludedOfferObject = Shape<typeof excludedSchema>;

const explanationSchema = record('RouteExplanation', {
  models: Type.Array(text(), { description: 'The aliases of the requested models.' }),
  plan: Type.Array(plannedSchema, { description: 'The offers to try, in order.' }),
  excluded: Type.Array(excludedSchema),
  hold: nullable(boundFields.hold),
  max_charge: nullable(boundFields.max_charge),
  error: nullable(
    inlineRecord({
      status: count('The HTTP status.'),
      type: text(),
      message: text(),
      param: nullable(text()),
    }),
  ),
});
export type RouteExplanationObject = Shape<typeof explanationSchema>;

const endpoint = oneOf(...explainedEndpoints);

const bodyOfEndpoint = named(
  'ExplainedRequest',
  Type.Object({}, { description: 'The request body, as it would be sent to the endpoint.' }),
);

const details =
  'Plans the request without sending it: nothing is charged, and no provider is called. Health and ' +
  'speed are those of the process that answers. `error` says why the request would be rejected; ' +
  'limits and credits are not checked. An invalid body gets the same 400 as at the endpoint.';

export const explainQuery = {
  endpoint: { ...endpoint, default: 'chat/completions', description: 'The endpoint.' },
};

export const adminExplainQuery = {
  ...explainQuery,
  tenant: Type.String({ description: 'The tenant. Without one, only shared capacity counts.' }),
  api_key_id: Type.String({ description: 'A key of the tenant, for its list of models.' }),
};

const example = { model: 'demo/chat', messages: [{ role: 'user', content: 'Hello!' }] };

export const explainDocs = {
  own: {
    summary: 'Explain how a request would be routed',
    details,
    query: explainQuery,
    body: bodyOfEndpoint,
    example,
    responses: { 200: data(explanationSchema) },
  },
  admin: {
    summary: 'Explain how a request of a tenant would be routed',
    details,
    query: adminExplainQuery,
    body: bodyOfEndpoint,
    example,
    responses: { 200: data(explanationSchema) },
  },
} satisfies Record<string, RouteDoc>;
