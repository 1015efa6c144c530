import { type Static, Type } from 'typebox';
import { efforts } from '../../core/dialogue.ts';
import { oneOf, optional } from '../../core/schema-builders.ts';
import { outputLimitSchema } from '../ask/output-limit.ts';
import { label, routingFields } from '../ask/routing.ts';
import { addedFields } from '../ask/search-wish.ts';
import { toolNamePattern, toolNameWords } from '../ask/tools/tool-names.ts';
import { anyBlock, textBlock } from './blocks.ts';

/**
 * What a client may send to `/v1/messages`. Known fields are checked; unknown ones pass on to
 * Anthropic-style upstreams. Blocks are checked one by one, each by the schema of its type.
 */

const content = Type.Union([Type.String(), Type.Array(anyBlock)]);
/** A message with content. A message without any only changes settings such as `output_config`. */
export const saidSchema = Type.Object({ content });
const messageSchema = Type.Object({
  role: oneOf('user', 'assistant', 'system'),
  content: optional(content),
});

/** Tools of other types than `custom` are the provider's own, and have fields of their own. */
const toolSchema = Type.Object({
  type: optional(Type.String()),
  name: optional(Type.String()),
});

export const customToolSchema = Type.Object({
  type: optional(Type.Literal('custom')),
  name: Type.String({ pattern: toolNamePattern, expected: toolNameWords }),
  description: optional(Type.String()),
  input_schema: Type.Object({}),
  strict: optional(Type.Boolean()),
  cache_control: optional(Type.Object({})),
});
export type CustomTool = Static<typeof customToolSchema>;

const parallel = { disable_parallel_tool_use: optional(Type.Boolean()) };
const toolChoiceSchema = Type.Union([
  Type.Object({ type: Type.Literal('auto'), ...parallel }),
  Type.Object({ type: Type.Literal('any'), ...parallel }),
  Type.Object({
    type: Type.Literal('tool'),
    name: Type.String({ minLength: 1 }),
    ...parallel,
  }),
  Type.Object({ type: Type.Literal('none') }),
]);

const display = { display: optional(oneOf('summarized', 'omitted', 'updates')) };
const thinkingSchema = Type.Union([
  Type.Object({ type: Type.Literal('adaptive'), ...display }),
  Type.Object({
    type: Type.Literal('enabled'),
    budget_tokens: Type.Integer({ minimum: 1 }),
    ...display,
  }),
  Type.Object({ type: Type.Literal('between_tools') }),
  Type.Object({ type: Type.Literal('disabled') }),
]);

const formatSchema = Type.Object({
  type: Type.Literal('json_schema'),
  schema: Type.Object({}),
});

const fields = {
  ...routingFields,
  messages: Type.Array(messageSchema, { minItems: 1, maxItems: 10_000 }),
  system: optional(Type.Union([Type.String(), Type.Array(textBlock)])),
  stream: optional(Type.Boolean()),
  temperature: optional(Type.Number({ minimum: 0, maximum: 1 })),
  top_p: optional(Type.Number({ minimum: 0, maximum: 1 })),
  top_k: optional(Type.Integer({ minimum: 0 })),
  stop_sequences: optional(Type.Array(Type.String(), { maxItems: 8_191 })),
  metadata: optional(Type.Object({ user_id: label })),
  tools: optional(Type.Array(toolSchema, { maxItems: 1024 })),
  tool_choice: optional(toolChoiceSchema),
  thinking: optional(thinkingSchema),
  output_config: optional(
    Type.Object({ effort: optional(oneOf(...efforts)), format: optional(formatSchema) }),
  ),
  output_format: optional(formatSchema),
  ...addedFields,
};

/** May be 0: then Anthropic reads the prompt into its cache and does not answer. */
const limit = Type.Integer({ ...outputLimitSchema, minimum: 0 });

export const messagesSchema = Type.Object({ ...fields, max_tokens: limit });
export type MessagesBody = Static<typeof messagesSchema>;
export type Messages = MessagesBody['messages'];

/** A request that is only counted needs no limit. */
export const countSchema = Type.Object({ ...fields, max_tokens: optional(limit) });
export type CountBody = Static<typeof countSchema>;
