import { type TProperties, Type } from 'typebox';
import { nullable, oneOf } from '../core/schema.ts';
import {
  count,
  data,
  inlineRecord,
  type RouteDoc,
  record,
  text,
  time,
  trafficMode,
} from './route-doc.ts';

const usd = text('US dollars, a decimal number.');
const usdPerToken = text('US dollars per token, a decimal number.');
const stringList = Type.Array(Type.String());

const longPrompts = <P extends TProperties>(prices: P, description: string) =>
  Type.Optional(
    Type.Array(inlineRecord({ above_tokens: count(), ...prices }), {
      description: `${description} Left out where a token costs the same in every prompt.`,
    }),
  );

const model = record('Model', {
  id: text('The alias that requests name.'),
  object: Type.Literal('model'),
  created: count('Unix seconds; 0 when unknown.'),
  owned_by: text(),
  name: text(),
  description: text(),
  context_length: count(),
  max_output_tokens: count(),
  pricing: inlineRecord({ prompt: usdPerToken, completion: usdPerToken, request: usd, image: usd }),
  long_prompts: longPrompts(
    { prompt: usdPerToken, completion: usdPerToken },
    'What a token costs instead in requests whose prompt is longer than so many tokens.',
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
  type: Type.Literal('model'),
  display_name: text(),
  created_at: time('As `created`.'),
  max_input_tokens: count('As `context_length`.'),
  max_tokens: count('As `max_output_tokens`.'),
});

const list = inlineRecord({ object: Type.Literal('list'), data: Type.Array(model) });
const anthropicList = inlineRecord({
  data: Type.Array(model),
  has_more: Type.Boolean(),
  first_id: nullable(text()),
  last_id: nullable(text()),
});

export const circuit = oneOf('closed', 'open', 'half_open');

const endpoint = record('ModelEndpoint', {
  provider: text(),
  priority: count('The lowest is tried first.'),
  traffic_mode: trafficMode,
  pricing: Type.Record(Type.String(), Type.String(), {
    description: 'US dollars; tokens, characters and bytes per million, the rest each.',
  }),
  long_prompts: longPrompts(
    {
      prompt: Type.Optional(usd),
      audio: Type.Optional(usd),
      completion: Type.Optional(usd),
      cache_read: Type.Optional(usd),
      cache_write: Type.Optional(usd),
      cache_write_1h: Type.Optional(usd),
    },
    'What changes in requests whose prompt is longer than so many tokens; the rest stays.',
  ),
  circuit,
  first_byte_ms: nullable(Type.Number()),
  tokens_per_second: nullable(Type.Number()),
});

export const modelDocs = {
  list: {
    summary: 'List the models that this key can call',
    details: 'Clients that send `anthropic-version` get the list in the shape they expect.',
    answers: { 200: Type.Union([list, anthropicList]) },
  },
  show: {
    summary: 'Look at one model',
    path: { id: 'An alias, `<brand>/<model>`.' },
    answers: { 200: model },
  },
  endpoints: {
    summary: 'List where each model is served',
    details: 'With prices and how each place has been doing, in the process that answers.',
    answers: {
      200: data(Type.Array(record('ServedModel', { id: text(), endpoints: Type.Array(endpoint) }))),
    },
  },
} satisfies Record<string, RouteDoc>;
