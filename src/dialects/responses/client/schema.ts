import { type Static, Type } from 'typebox';
import { efforts } from '../../../core/prompt.ts';
import { oneOf, optional } from '../../../core/schema.ts';
import { outputLimitSchema } from '../../normalize/requests/generation-options.ts';
import { label, routingFields } from '../../normalize/requests/routing.ts';
import { addedFields } from '../../normalize/requests/search-options.ts';

// What a client may send to `/v1/responses`. Known fields are validated. Unknown fields are
// forwarded to Responses upstreams. Each item and each tool is validated against the schema of its
// type. The upstream validates those with an unknown type.

export const anyTyped = Type.Object({ type: optional(Type.String()) });

export const inputListSchema = Type.Array(anyTyped, { minItems: 1, maxItems: 10_000 });
export const toolListSchema = Type.Array(anyTyped, { maxItems: 1024 });

const schemaFormat = Type.Object({
  type: Type.Literal('json_schema'),
  name: Type.String({ minLength: 1, maxLength: 64 }),
  schema: Type.Object({}),
  description: optional(Type.String()),
  strict: optional(Type.Boolean()),
});
const formatSchema = Type.Union([
  Type.Object({ type: Type.Literal('text') }),
  Type.Object({ type: Type.Literal('json_object') }),
  schemaFormat,
]);

const toolChoiceSchema = Type.Union([
  // Clients of Mistral and Anthropic send `any` for `required`.
  oneOf('none', 'auto', 'required', 'any'),
  Type.Object({
    type: Type.String(),
    name: optional(Type.String()),
    mode: optional(oneOf('auto', 'required')),
    tools: optional(
      Type.Array(Type.Object({ ...anyTyped.properties, name: optional(Type.String()) })),
    ),
  }),
]);

/** The `include` value for encrypted reasoning, which the client sends back in the next turn. */
export const encryptedReasoning = 'reasoning.encrypted_content';

export const responsesSchema = Type.Object({
  ...routingFields,
  input: Type.Union([Type.String({ minLength: 1 }), inputListSchema]),
  instructions: optional(Type.String()),
  max_output_tokens: optional(outputLimitSchema),
  temperature: optional(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: optional(Type.Number({ minimum: 0, maximum: 1 })),
  top_logprobs: optional(Type.Integer({ minimum: 0, maximum: 20 })),
  tools: optional(toolListSchema),
  tool_choice: optional(toolChoiceSchema),
  parallel_tool_calls: optional(Type.Boolean()),
  max_tool_calls: optional(Type.Integer({ minimum: 1 })),
  text: optional(
    Type.Object({
      format: optional(formatSchema),
      verbosity: optional(oneOf('low', 'medium', 'high')),
    }),
  ),
  reasoning: optional(
    Type.Object({ effort: optional(oneOf(...efforts)), summary: optional(Type.String()) }),
  ),
  stream: optional(Type.Boolean()),
  stream_options: optional(Type.Object({ include_obfuscation: optional(Type.Boolean()) })),
  store: optional(Type.Boolean()),
  background: optional(Type.Boolean()),
  previous_response_id: optional(Type.String()),
  conversation: optional(Type.Union([Type.String(), Type.Object({})])),
  prompt: optional(Type.Object({})),
  metadata: optional(Type.Record(Type.String(), Type.String())),
  user: label,
  safety_identifier: label,
  prompt_cache_key: label,
  include: optional(Type.Array(Type.String(), { maxItems: 100 })),
  service_tier: optional(Type.String()),
  truncation: optional(oneOf('auto', 'disabled')),
  ...addedFields,
});
export type SentBody = Static<typeof responsesSchema>;

/** The body with OpenAI's own names for the tool choice. */
export type ResponsesBody = Omit<SentBody, 'tool_choice'> & {
  tool_choice?: Exclude<SentBody['tool_choice'], 'any'>;
};
