import { type Static, Type } from 'typebox';
import { integer, oneOf } from '../core/schema.ts';
import { mapPrices, priceNames, tokenPriceNames } from '../money/price/price-classes.ts';
import { quirksSchema } from './provider-schema.ts';
import { priceSource, strictObject, usd } from './schema-fields.ts';

const features = [
  'tools',
  'json_mode',
  'json_schema',
  'reasoning',
  'image_edit',
  'image_generation',
  'speech',
  'transcription',
  'embeddings',
] as const;
export type Feature = (typeof features)[number];

const modality = oneOf('text', 'image', 'audio', 'file', 'video');

/** Prices for prompts above `above_tokens`. An omitted price doesn't change. */
const longPromptSchema = Type.Object(
  {
    above_tokens: integer(1),
    ...mapPrices(tokenPriceNames, () => Type.Optional(usd())),
  },
  { additionalProperties: false },
);

/** Vendors have 1 or 2 tiers. The number is limited because each request checks all tiers. */
export const longPromptsMax = 10;

/** US dollars as decimal text. Prices of tokens, characters, and bytes are per million. */
export const pricingSchema = strictObject({
  ...mapPrices(priceNames, () => usd()),
  long_prompts: Type.Array(longPromptSchema, { minItems: 1, maxItems: longPromptsMax }),
});
export type PricingConfig = Static<typeof pricingSchema>;

const speechSchema = strictObject({
  /** `first_party` models reject unknown voices and invalid speeds; `mapped` ones don't. */
  style: oneOf('first_party', 'mapped'),
  voices: Type.Record(Type.String(), Type.String()),
  default_voice: Type.String(),
  input_characters_max: integer(1),
  input_bytes_max: integer(1),
  instructions: Type.Boolean(),
  /** Whether the endpoint can stream events that report usage. Otherwise usage is estimated. */
  reports_usage: Type.Boolean(),
});
export type SpeechSettings = Static<typeof speechSchema>;

/** What keeps a conversation at one endpoint and key, see route/stickiness.ts. */
export const stickiness = oneOf('off', 'session', 'prompt');
export type Stickiness = Static<typeof stickiness>;

/** A provider that serves a model. */
const endpointSchema = Type.Object(
  {
    provider: Type.String({ minLength: 1 }),
    /** The provider's name for the model. Never shown to a client. */
    model: Type.String({ minLength: 1 }),
    /** The lowest is tried first. */
    priority: Type.Optional(integer(0, 1000)),
    /** The share of the requests among endpoints of the same priority. 0: only if named. */
    weight: Type.Optional(integer(0, 1000)),
    pricing: Type.Optional(pricingSchema),
    price_source: Type.Optional(priceSource()),
    quirks: Type.Optional(quirksSchema),
    /** Overrides the provider's dialect, at the same base URL and with the same key. */
    dialect: Type.Optional(oneOf('openai', 'openai-responses')),
    /** The endpoint's speech settings, if they differ from the model's. */
    speech: Type.Optional(speechSchema),
  },
  { additionalProperties: false },
);

export const modelSchema = Type.Object(
  {
    id: Type.String({
      pattern: '^[A-Za-z0-9][\\w.-]*/[\\w.:-]+$',
      maxLength: 200,
      expected: '<brand>/<model>',
    }),
    name: Type.String({ minLength: 1, maxLength: 200 }),
    description: Type.Optional(Type.String({ maxLength: 2000 })),
    /** Unix seconds of the release, as `created` in the model list. */
    created: Type.Optional(integer(0)),
    context_length: Type.Optional(integer(1)),
    max_completion_tokens: Type.Optional(integer(1)),
    input_modalities: Type.Array(modality, { minItems: 1 }),
    output_modalities: Type.Array(modality, { minItems: 1 }),
    features: Type.Optional(Type.Array(oneOf(...features))),
    tokenizer: Type.Optional(Type.String()),
    /** The largest image the model accepts. Larger ones are rejected before they cost anything. */
    image_limits: Type.Optional(
      strictObject({ long_edge_px: integer(1), megapixels: Type.Number({ minimum: 0 }) }),
    ),
    /** `adaptive`: the model decides how long to think and rejects a token budget. */
    thinking: Type.Optional(oneOf('adaptive', 'budget', 'effort')),
    speech: Type.Optional(speechSchema),
    /** Overrides the option of the same name. */
    stickiness: Type.Optional(stickiness),
    endpoints: Type.Array(endpointSchema, { minItems: 1 }),
  },
  { additionalProperties: false },
);
export type ModelConfig = Static<typeof modelSchema>;
export type EndpointConfig = Static<typeof endpointSchema>;
