import { type TProperties, Type } from 'typebox';
import { nullable, oneOf } from '../core/schema.ts';
import { mapPrices, tokenPriceNames } from '../money/price/price-classes.ts';
import {
  count,
  data,
  inlineRecord,
  record,
  type Shape,
  text,
  time,
  trafficMode,
} from './fields.ts';
import { type Cap, cappedSchema } from './query.ts';
import type { RouteDoc } from './route-doc.ts';

// Models and the endpoints that serve them.

const usd = text('US dollars, as a decimal number.');
const usdPerToken = text('US dollars per token, as a decimal number.');
const stringList = Type.Array(Type.String());

const longPrompts = <P extends TProperties>(prices: P, description: string) =>
  Type.Optional(
    Type.Array(inlineRecord({ above_tokens: count(), ...prices }), {
      description: `${description} Absent if the price doesn't depend on the prompt length.`,
    }),
  );

const modelSchema = record('Model', {
  id: text('The alias, `<brand>/<model>`.'),
  object: Type.Literal('model'),
  created: count('Unix seconds; 0 if unknown.'),
  owned_by: text(),
  name: text(),
  description: text(),
  context_length: count(),
  max_output_tokens: count(),
  pricing: inlineRecord({ prompt: usdPerToken, completion: usdPerToken, request: usd, image: usd }),
  long_prompts: longPrompts(
    { prompt: usdPerToken, completion: usdPerToken },
    'Token prices of requests whose prompt has more than `above_tokens` tokens.',
  ),
  architecture: inlineRecord({
    modality: text(),
    input_modalities: stringList,
    output_modalities: stringList,
    tokenizer: text(),
    features: stringList,
  }),
  top_provider: inlineRecord({
    context_length: count(),
    max_completion_tokens: count(),
    is_moderated: Type.Boolean(),
  }),
  supported_parameters: stringList,
  per_request_limits: Type.Null(),
  canonical_slug: text('The same as `id`.'),
  default_parameters: Type.Null(),
  hugging_face_id: Type.Null(),
  links: inlineRecord({ details: text('The path of this object.') }),
  type: Type.Literal('model'),
  display_name: text(),
  created_at: time('The same as `created`.'),
  capabilities: Type.Null(),
  lifecycle: Type.Literal('active'),
  line: Type.Null(),
  deprecated_at: Type.Null(),
  retires_at: Type.Null(),
  max_input_tokens: count('The same as `context_length`.'),
  max_tokens: count('The same as `max_output_tokens`.'),
});
export type ModelObject = Shape<typeof modelSchema>;

const modelListSchema = inlineRecord({
  object: Type.Literal('list'),
  data: Type.Array(modelSchema),
  total_count: count(),
  links: inlineRecord({ next: Type.Null({ description: 'The list always has one page.' }) }),
});
export type ModelListObject = Shape<typeof modelListSchema>;

/** The list in Anthropic's shape. */
const anthropicModelListSchema = inlineRecord({
  data: Type.Array(modelSchema),
  has_more: Type.Boolean(),
  first_id: nullable(text()),
  last_id: nullable(text()),
});
export type AnthropicModelListObject = Shape<typeof anthropicModelListSchema>;

export const circuit = oneOf('closed', 'open', 'half_open');
export type Circuit = Shape<typeof circuit>;

/** Measured by the process that handles the request; null until there is a measurement. */
export const endpointHealth = {
  first_byte_ms: nullable(Type.Number()),
  tokens_per_second: nullable(Type.Number()),
};

export const endpointWeight = nullable(
  count(
    'The share of the requests among endpoints of the same priority. 0: only requests that name ' +
      'the provider. Null: endpoints of the same priority are tried in order.',
  ),
);

const endpointSchema = record('ModelEndpoint', {
  provider: text(),
  priority: count('The lowest is tried first.'),
  weight: endpointWeight,
  traffic_mode: trafficMode,
  pricing: Type.Record(Type.String(), Type.String(), {
    description: 'US dollars per million tokens, characters, or bytes; other prices are per unit.',
  }),
  long_prompts: longPrompts(
    mapPrices(tokenPriceNames, () => Type.Optional(usd)),
    'The prices that differ if the prompt has more than `above_tokens` tokens.',
  ),
  circuit,
  ...endpointHealth,
});
export type ModelEndpointObject = Shape<typeof endpointSchema>;

const servedModelSchema = record('ServedModel', {
  id: text(),
  endpoints: Type.Array(endpointSchema),
});
export type ServedModelObject = Shape<typeof servedModelSchema>;

/** Anthropic's maximum. Without a limit, the list has as many models as fit. */
export const modelPageCap: Cap = { defaultValue: 1_000, max: 1_000 };
export const modelPageLimitSchema = cappedSchema(modelPageCap);

export const modelDocs = {
  list: {
    summary: 'List the models that this key can call',
    details:
      "Clients that send `anthropic-version` get the list in Anthropic's shape, in pages. " +
      'Other clients get the full list, whatever the query says.',
    query: {
      limit: modelPageLimitSchema,
      after_id: Type.String({ description: 'Returns the page after this model.' }),
      before_id: Type.String({
        description: 'Returns the page before this model. Excludes `after_id`.',
      }),
    },
    responses: { 200: Type.Union([modelListSchema, anthropicModelListSchema]) },
  },
  show: {
    summary: 'Get a model',
    path: { id: 'An alias, `<brand>/<model>`, or the name without the brand.' },
    responses: { 200: modelSchema },
  },
  endpoints: {
    summary: 'List the endpoints of each model',
    details: 'Includes prices, and health as measured by the process that handles the request.',
    responses: { 200: data(Type.Array(servedModelSchema)) },
  },
} satisfies Record<string, RouteDoc>;
