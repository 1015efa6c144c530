import { type Static, Type } from 'typebox';
import { integer, nullable, oneOf } from '../core/schema.ts';
import { httpUrl, secretText, strictObject, timeWithOffset } from './schema-fields.ts';

export const dialectNames = [
  'openai',
  'openai-responses',
  'anthropic',
  'gemini',
  'bedrock',
  'cohere',
  'siliconflow',
] as const;
export type DialectName = (typeof dialectNames)[number];

/** Kinds of credentials that a machine or container provides. */
const workloadNames = ['aws', 'aws_instance', 'google', 'google_metadata'] as const;
export type WorkloadName = (typeof workloadNames)[number];

/**
 * How a vendor deviates from its dialect. Quirks are data: no code checks a vendor's name. An
 * endpoint's quirks override those of its provider.
 */
export const quirksSchema = strictObject({
  /** The name of the output cap's parameter. OpenAI's newer models reject `max_tokens`. */
  output_limit: oneOf('max_tokens', 'max_completion_tokens'),
  /** Parameters to leave out because the vendor rejects them. Groq: logprobs, logit_bias. */
  drop_params: Type.Array(Type.String()),
  /** Anthropic betas to leave out because the host rejects them. `*` means all. */
  drop_betas: Type.Array(Type.String()),
  /** Parameters that the vendor calls by another name. Mistral calls seed random_seed. */
  rename_params: Type.Record(Type.String(), Type.String()),
  /** Most vendors know the role `system`, but not `developer`. */
  developer_role: oneOf('keep', 'system'),
  /**
   * vLLM's chat templates accept exactly one leading system message. Anthropic's older models
   * accept instructions only in `system`.
   */
  system_messages: oneOf('keep', 'merge'),
  /** DeepSeek accepts a string, but no list of text parts. */
  text_parts: oneOf('keep', 'join'),
  /** Groq rejects `messages[].name`. */
  message_names: oneOf('keep', 'drop'),
  /**
   * Mistral and Groq reject unknown fields in earlier answers, such as OpenAI's `refusal: null`.
   */
  answer_fields: oneOf('keep', 'known'),
  /**
   * Mistral requires tool call IDs of 9 letters and digits. By default, only IDs longer than
   * OpenAI's limit are shortened.
   */
  tool_call_ids: oneOf('keep', 'nine_characters'),
  /** Mistral rejects a user message right after tool results; `answer` inserts an answer. */
  after_tool_results: oneOf('keep', 'answer'),
  /** Mistral and xAI reject earlier answers that have neither text nor tool calls. */
  empty_answers: oneOf('keep', 'drop'),
  /**
   * Mistral rejects a prompt that ends with an assistant or system message; `continue` adds a user
   * message that asks to continue. It isn't added after tool calls or after a message with
   * `prefix`.
   */
  last_answer: oneOf('keep', 'continue'),
  /** The vendor's value for `tool_choice: required`. Older Mistral: any. */
  tool_choice_required: oneOf('required', 'any'),
  /** LM Studio rejects a named `tool_choice`; `only_tool` sends only that tool and `required`. */
  tool_choice_named: oneOf('keep', 'only_tool'),
  /** Free-form tools and `allowed_tools`, which OpenAI has supported since GPT-5. */
  newer_tools: oneOf('translate', 'keep'),
  /** Whether streams report usage only if the request asks for it. */
  stream_usage: oneOf('on_request', 'always'),
  /** The vendor's values for our effort levels. A level that isn't listed is omitted. */
  efforts: Type.Record(Type.String(), Type.String()),
  /** DeepSeek turns reasoning off with `thinking`. A forced tool call requires this. */
  reasoning_off: oneOf('effort', 'thinking'),
  /**
   * OpenAI's models reject sampling parameters while they reason. `drop_when_requested` is for
   * models that reason only if the request asks for it.
   */
  sampling_while_reasoning: oneOf('keep', 'drop', 'drop_when_requested'),
  /** The field of assistant messages in which earlier reasoning is sent back. */
  replay_reasoning: oneOf('drop', 'reasoning_content', 'reasoning', 'reasoning_details'),
  /** For vendors without json_schema, `instruct` sends the schema as an instruction. */
  json_schema: oneOf('native', 'instruct'),
  /** LM Studio rejects `json_object`; `schema` sends a schema that every object matches. */
  json_object: oneOf('native', 'schema'),
  /** Groq rejects JSON output with tools; `instruct` requests JSON with an instruction. */
  json_with_tools: oneOf('native', 'instruct'),
  /** Ollama and others accept only image bytes; `inline` fetches image URLs. */
  remote_images: oneOf('pass', 'inline'),
  /** The most inputs in one call. Text Embeddings Inference accepts 32 by default. */
  embedding_batch: integer(1, 2048),
  /**
   * By default, tools and parameters for which vendors charge separately are dropped. `keep` is for
   * self-hosted servers such as vLLM and SGLang, and for prices that cover these charges.
   */
  separately_priced: oneOf('drop', 'keep'),
  /**
   * The field whose value separates the vendor's prompt caches of tenants: its own limit for caches
   * is the account, which all tenants share. OpenAI: prompt_cache_key, vLLM: cache_salt.
   */
  tenant_cache_field: oneOf('prompt_cache_key', 'cache_salt'),
  /** Vertex AI serves Claude's Messages API at other paths, with the version in the body. */
  hosted_by: oneOf('vertex'),
});
export type Quirks = Static<typeof quirksSchema>;

/** The key before a rotation. It is used only if the new key can't be, until a time. */
const previousKeySchema = Type.Object(
  { key: secretText(), until: timeWithOffset() },
  { additionalProperties: false },
);
export type PreviousKeyConfig = Static<typeof previousKeySchema>;

/** One of several keys of a provider. */
const providerKeySchema = Type.Object(
  {
    /** Shown instead of the key. */
    name: Type.String({
      pattern: '^[\\w.-]{1,63}$',
      expected: '1 to 63 letters, digits, "-", "_", and "."',
    }),
    key: secretText(),
    previous_key: Type.Optional(previousKeySchema),
    /** The key's share of the requests, relative to the provider's other keys. */
    weight: Type.Optional(integer(1, 1000)),
    /** For all processes with Redis, otherwise for each, like the next limit. */
    requests_per_minute: Type.Optional(integer(1)),
    concurrent_requests: Type.Optional(integer(1)),
    /** True: no request uses the key. */
    disabled: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
);
export type ProviderKeyConfig = Static<typeof providerKeySchema>;

const servedModelsSchema = Type.Object(
  {
    /** The ID of a model in the built-in catalog. A final `*` stands for any text. */
    match: Type.String({
      pattern: '^[^\\s*]{1,199}\\*?$',
      expected: 'the ID of a model, or its start and "*"',
    }),
    /** The provider's name for the model, by default that of the vendor. */
    model: Type.Optional(
      Type.String({
        pattern: '^[^*]*\\*?[^*]*$',
        expected: 'a name with at most one "*"',
        minLength: 1,
        maxLength: 200,
      }),
    ),
    priority: Type.Optional(integer(0, 1000)),
    weight: Type.Optional(integer(0, 1000)),
  },
  { additionalProperties: false },
);
export type ServedModels = Static<typeof servedModelsSchema>;

/** The keys are searched for each attempt. */
const keysMax = 100;

export const providerSchema = strictObject({
  dialect: oneOf(...dialectNames),
  base_url: httpUrl('https://api.example.com/v1'),
  api_key: nullable(secretText()),
  /** The credentials of the machine or container, instead of a key. */
  credentials: oneOf(...workloadNames),
  headers: Type.Record(Type.String(), Type.String({ hidden: true })),
  previous_key: previousKeySchema,
  /** Several keys, instead of `api_key`. */
  api_keys: Type.Array(providerKeySchema, { minItems: 1, maxItems: keysMax }),
  /** The AWS region to sign requests for, if the base URL doesn't name it. */
  region: Type.String({
    pattern: '^[a-z]{2,}(-[a-z0-9]+)+$',
    expected: 'a region such as "eu-central-1"',
  }),
  /** The longest wait for the first byte of an answer. */
  timeout_ms: integer(1, 3_600_000),
  /** The longest wait between two bytes of an answer. */
  idle_timeout_ms: integer(1, 3_600_000),
  /** False: only tenants who bring their own key can use this provider. */
  shared: Type.Boolean(),
  /** Whether a tenant's key may have its own base URL. */
  byok_base_url: Type.Boolean(),
  quirks: quirksSchema,
  /** Models of the built-in catalog that this provider serves, too, at the catalog's prices. */
  serves: Type.Array(servedModelsSchema, { minItems: 1, maxItems: 100 }),
});
export type ProviderConfig = Static<typeof providerSchema>;
