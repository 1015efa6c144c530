import { type Static, Type } from 'typebox';
import { integer, nullable, oneOf } from '../core/schema.ts';
import { httpAddress, secretText, strictObject } from './schema-fields.ts';

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

/**
 * Every way in which a vendor may deviate from its dialect. A vendor's quirks are data: no code
 * checks a vendor's name. An endpoint's quirks override those of its provider.
 */
export const quirksSchema = strictObject({
  /**
   * The parameter for the output cap. OpenAI's newer models refuse `max_tokens`; some vendors know
   * only that.
   */
  output_limit: oneOf('max_tokens', 'max_completion_tokens'),
  /**
   * Parameters that the vendor answers with 400, so they are left out. Groq: logprobs, logit_bias.
   */
  drop_params: Type.Array(Type.String()),
  /** Anthropic betas that the host does not know and answers with 400; `*` for all. */
  drop_betas: Type.Array(Type.String()),
  /** Parameters that the vendor calls by another name. Mistral: seed is random_seed. */
  rename_params: Type.Record(Type.String(), Type.String()),
  /** Vendors other than OpenAI know only the role `system`, not `developer`. */
  developer_role: oneOf('keep', 'system'),
  /**
   * vLLM chat templates accept exactly one leading system message; Anthropic's older models take
   * instructions in `system` only.
   */
  system_messages: oneOf('keep', 'merge'),
  /** DeepSeek takes a single text where OpenAI also takes a list of text parts. */
  text_parts: oneOf('keep', 'join'),
  /** Groq refuses `messages[].name`. */
  message_names: oneOf('keep', 'drop'),
  /**
   * Mistral and Groq refuse fields of earlier answers beside text and tool calls, such as OpenAI's
   * `refusal: null`.
   */
  answer_fields: oneOf('keep', 'known'),
  /**
   * Mistral wants tool call ids of nine letters and digits. Where nothing is set, ids longer than
   * OpenAI takes are shortened.
   */
  tool_call_ids: oneOf('keep', 'nine_characters'),
  /**
   * Mistral refuses a user message right after tool results: an assistant message is put between.
   */
  after_tool_results: oneOf('keep', 'answer'),
  /**
   * Mistral and xAI refuse an earlier answer that has neither text nor tool calls, as one that was
   * stopped early.
   */
  empty_answers: oneOf('keep', 'drop'),
  /**
   * Mistral refuses a conversation that ends with an assistant or a system message: a user message
   * asks to continue. Tool calls wait for their results instead, and `prefix` is left to Mistral.
   */
  last_answer: oneOf('keep', 'continue'),
  /** How the vendor spells `tool_choice: required`. Older Mistral: any. */
  tool_choice_required: oneOf('required', 'any'),
  /** LM Studio cannot be told to call a named tool: it gets only that tool and `required`. */
  tool_choice_named: oneOf('keep', 'alone'),
  /**
   * Free-form tools and `allowed_tools`, which OpenAI's models know in chat completions since
   * GPT-5.
   */
  newer_tools: oneOf('translate', 'keep'),
  /** Whether a stream reports usage only when asked to, or always. */
  stream_usage: oneOf('ask', 'always'),
  /**
   * Our effort levels as the vendor's words; a level that is not listed is left out of the request.
   */
  efforts: Type.Record(Type.String(), Type.String()),
  /** DeepSeek turns reasoning off with `thinking`; only then can it be forced to call a tool. */
  reasoning_off: oneOf('effort', 'thinking'),
  /**
   * OpenAI's models refuse sampling parameters while they reason; some reason only when asked to.
   */
  sampling_while_reasoning: oneOf('keep', 'drop', 'drop_when_asked'),
  /** The field of assistant messages in which earlier reasoning is sent back. */
  replay_reasoning: oneOf('drop', 'reasoning_content', 'reasoning', 'reasoning_details'),
  /** Vendors without json_schema get the schema as an instruction. */
  json_schema: oneOf('native', 'instruct'),
  /** LM Studio refuses `json_object`: it gets a schema that any object fits. */
  json_object: oneOf('native', 'schema'),
  /**
   * Groq refuses JSON output together with tools: the wish for JSON then becomes an instruction.
   */
  json_with_tools: oneOf('native', 'instruct'),
  /** Vendors such as Ollama take image bytes only: http image URLs are fetched and inlined. */
  remote_images: oneOf('pass', 'inline'),
  /**
   * The most texts in one call. Text Embeddings Inference takes 32 unless it was started with more.
   */
  embedding_batch: integer(1, 2048),
  /**
   * Tools and parameters that vendors charge for separately are dropped; `keep` is for servers of
   * one's own that know them, such as vLLM and SGLang, and for prices that cover them.
   */
  priced_apart: oneOf('drop', 'keep'),
  /** Vertex AI takes Claude's Messages format at paths of its own, with the version in the body. */
  hosted_by: oneOf('vertex'),
});
export type Quirks = Static<typeof quirksSchema>;

export const providerSchema = strictObject({
  dialect: oneOf(...dialectNames),
  base_url: httpAddress('https://api.example.com/v1'),
  api_key: nullable(secretText()),
  headers: Type.Record(Type.String(), Type.String({ hidden: true })),
  /** The AWS region that requests are signed for, if the address does not name it. */
  region: Type.String({
    pattern: '^[a-z]{2,}(-[a-z0-9]+)+$',
    expected: 'a region such as "eu-central-1"',
  }),
  /** The longest wait for the first byte of the answer. */
  timeout_ms: integer(1, 3_600_000),
  /** The longest wait between two bytes of the answer. */
  idle_timeout_ms: integer(1, 3_600_000),
  /** False: only tenants who bring their own key may use it. */
  shared: Type.Boolean(),
  /** Whether a tenant's own key may come with an address of its own. */
  byok_base_url: Type.Boolean(),
  quirks: quirksSchema,
});
export type ProviderFile = Static<typeof providerSchema>;
