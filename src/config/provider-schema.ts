import { type Static, Type } from 'typebox';
import { nullable, oneOf, wholeNumber } from '../core/schema-builders.ts';
import { closed, httpAddress, secretText } from './schema-parts.ts';

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
 * The complete list of the ways vendors of a dialect deviate from it. A vendor's quirks are data:
 * no code asks for a vendor's name. An endpoint's quirks are laid over its provider's.
 */
export const quirksSchema = closed({
  /** Where the output cap goes. OpenAI's newer models refuse `max_tokens`; others know no other. */
  output_limit: oneOf('max_tokens', 'max_completion_tokens'),
  /** Parameters the vendor answers with 400: left out. Groq: logprobs, logit_bias. */
  drop_params: Type.Array(Type.String()),
  /** Betas of Anthropic's that the host does not know and answers with 400; `*` for all. */
  drop_betas: Type.Array(Type.String()),
  /** Parameters with another name. Mistral: seed is random_seed. */
  rename_params: Type.Record(Type.String(), Type.String()),
  /** Vendors other than OpenAI know `system` only. */
  developer_role: oneOf('keep', 'system'),
  /** vLLM chat templates accept exactly one leading system message. */
  system_messages: oneOf('keep', 'merge'),
  /** DeepSeek takes one text where OpenAI takes a list of them. */
  text_parts: oneOf('keep', 'join'),
  /** Groq refuses `messages[].name`. */
  message_names: oneOf('keep', 'drop'),
  /** Mistral and Groq refuse what OpenAI's answers have beside words and calls: `refusal: null`. */
  answer_fields: oneOf('keep', 'known'),
  /** Mistral wants tool call ids of nine letters and digits. */
  tool_call_ids: oneOf('keep', 'nine_characters'),
  /** Mistral refuses the user's words right behind results of tools: an answer stands first. */
  after_tool_results: oneOf('keep', 'answer'),
  /** Mistral and xAI refuse an earlier answer without words and calls, as a stopped one is. */
  empty_answers: oneOf('keep', 'drop'),
  /** Mistral refuses a conversation that ends with an answer: the user has it continued. */
  last_answer: oneOf('keep', 'continue'),
  /** How the vendor spells `tool_choice: required`. Older Mistral: any. */
  tool_choice_required: oneOf('required', 'any'),
  /** LM Studio takes no tool by its name: it must call one, and is offered no other. */
  tool_choice_named: oneOf('keep', 'alone'),
  /** Free-form tools and `allowed_tools`: OpenAI's models since GPT-5 know them in a chat. */
  newer_tools: oneOf('translate', 'keep'),
  /** Whether usage in a stream must be asked for, or comes by itself. */
  stream_usage: oneOf('ask', 'always'),
  /** Our effort levels to the vendor's words; a level that is absent is left out of the request. */
  efforts: Type.Record(Type.String(), Type.String()),
  /** DeepSeek stops reasoning for `thinking`, and can be made to call a tool only then. */
  reasoning_off: oneOf('effort', 'thinking'),
  /** OpenAI's models refuse sampling parameters while they reason; some do only when asked to. */
  sampling_while_reasoning: oneOf('keep', 'drop', 'drop_when_asked'),
  /** The field in which earlier reasoning goes back on assistant messages. */
  replay_reasoning: oneOf('drop', 'reasoning_content', 'reasoning', 'reasoning_details'),
  /** Vendors without json_schema get the schema as an instruction. */
  json_schema: oneOf('native', 'instruct'),
  /** LM Studio takes no `json_object`, and a schema of any object instead. */
  json_object: oneOf('native', 'schema'),
  /** Groq refuses JSON output beside tools: it becomes an instruction there. */
  json_with_tools: oneOf('native', 'instruct'),
  /** Vendors such as Ollama take image bytes only: http image URLs are fetched and inlined. */
  remote_images: oneOf('pass', 'inline'),
  /** Text Embeddings Inference takes 32 texts at once unless it was started otherwise. */
  embedding_batch: wholeNumber(1, 2048),
  /** Tools that vendors run and charge for; a server of one's own has them too: vLLM, SGLang. */
  priced_apart: oneOf('drop', 'keep'),
  /** Vertex AI takes Claude's messages at paths of its own, with the version in the body. */
  hosted_by: oneOf('vertex'),
});
export type Quirks = Static<typeof quirksSchema>;

export const providerSchema = closed({
  dialect: oneOf(...dialectNames),
  base_url: httpAddress('https://api.example.com/v1'),
  api_key: nullable(secretText()),
  headers: Type.Record(Type.String(), Type.String({ hidden: true })),
  /** Where requests are signed for, if the address does not say it. */
  region: Type.String({
    pattern: '^[a-z]{2,}(-[a-z0-9]+)+$',
    expected: 'a region such as "eu-central-1"',
  }),
  /** To the first byte of the answer. */
  timeout_ms: wholeNumber(1, 3_600_000),
  /** Between two bytes of the answer. */
  idle_timeout_ms: wholeNumber(1, 3_600_000),
  /** False: only tenants who bring their own key may use it. */
  shared: Type.Boolean(),
  /** Whether a tenant's own key may come with an address of its own. */
  byok_base_url: Type.Boolean(),
  quirks: quirksSchema,
});
export type ProviderFile = Static<typeof providerSchema>;
