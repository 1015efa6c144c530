import { type Static, Type } from 'typebox';
import { efforts } from '../../../core/prompt.ts';
import { oneOf, optional } from '../../../core/schema.ts';
import { imageUrl } from '../../normalize/requests/external-references.ts';
import { outputLimitSchema } from '../../normalize/requests/generation-options.ts';
import { label, routingFields } from '../../normalize/requests/routing.ts';
import { addedFields, searchToolSchema } from '../../normalize/requests/search-options.ts';
import { toolNameDescription, toolNamePattern } from '../../normalize/requests/tool-identifiers.ts';
import { grammarFields, customTool as responsesTool } from '../../responses/client/tools.ts';

// What a client may send to `/v1/chat/completions`. Known fields are validated. Unknown fields are
// forwarded to OpenAI-style upstreams. Every optional field allows `null`, which SDKs send for
// unset fields.

const textPart = Type.Object({ type: Type.Literal('text'), text: Type.String() });
const imagePart = Type.Object({
  type: Type.Literal('image_url'),
  image_url: Type.Object({
    url: imageUrl,
    detail: optional(Type.String()),
  }),
});
const audioPart = Type.Object({
  type: Type.Literal('input_audio'),
  input_audio: Type.Object({ data: Type.String(), format: Type.String() }),
});
const filePart = Type.Object({
  type: Type.Literal('file'),
  file: Type.Object({
    file_data: optional(Type.String()),
    file_id: optional(Type.String()),
    filename: optional(Type.String()),
  }),
});
const refusalPart = Type.Object({ type: Type.Literal('refusal'), refusal: Type.String() });

const textContent = Type.Union([Type.String(), Type.Array(textPart)]);
const userContent = Type.Union([
  Type.String(),
  Type.Array(Type.Union([textPart, imagePart, audioPart, filePart]), { minItems: 1 }),
]);
const toolContent = Type.Union([Type.String(), Type.Array(Type.Union([textPart, imagePart]))]);

const calledFunction = Type.Object({ name: Type.String(), arguments: Type.String() });
const functionCall = Type.Object({
  id: Type.String(),
  type: optional(Type.Literal('function')),
  function: calledFunction,
});
const customCall = Type.Object({
  id: Type.String(),
  type: Type.Literal('custom'),
  custom: Type.Object({ name: Type.String(), input: Type.String() }),
});
const toolCall = Type.Union([functionCall, customCall]);
export type ToolCall = Static<typeof toolCall>;

const messageSchema = Type.Union([
  Type.Object({ role: Type.Literal('user'), content: userContent }),
  Type.Object({
    role: Type.Literal('assistant'),
    content: optional(Type.Union([Type.String(), Type.Array(Type.Union([textPart, refusalPart]))])),
    tool_calls: optional(Type.Array(toolCall)),
    function_call: optional(calledFunction),
    reasoning: optional(Type.String()),
    reasoning_content: optional(Type.String()),
    refusal: optional(Type.String()),
  }),
  Type.Object({ role: Type.Literal('system'), content: textContent }),
  Type.Object({ role: Type.Literal('tool'), tool_call_id: Type.String(), content: toolContent }),
  Type.Object({ role: Type.Literal('developer'), content: textContent }),
  Type.Object({
    role: Type.Literal('function'),
    name: Type.String({ minLength: 1 }),
    content: optional(textContent),
  }),
]);
export type ChatMessage = Static<typeof messageSchema>;

const named = {
  name: Type.String({ pattern: toolNamePattern, expected: toolNameDescription }),
  description: optional(Type.String()),
};
/** Validates only the parts of a JSON schema that every provider reads the same way. */
const parameters = Type.Object({
  type: optional(Type.Union([Type.String(), Type.Array(Type.String())])),
  properties: optional(Type.Object({})),
  required: optional(Type.Array(Type.String())),
});
const functionTool = Type.Object({
  type: Type.Literal('function'),
  function: Type.Object({
    ...named,
    parameters: optional(parameters),
    strict: optional(Type.Boolean()),
  }),
});

export type FunctionTool = Static<typeof functionTool>;

/** A flat tool has no field `function`. A tool with that field is validated as a nested one. */
const flat = { type: Type.Literal('function'), function: Type.Optional(Type.Never()) };

/** A function tool in the format of the Responses endpoint. Cursor sends such tools to chat. */
const flatTool = Type.Object({
  ...flat,
  ...named,
  parameters: optional(parameters),
  strict: optional(Type.Boolean()),
});

export type FlatTool = Static<typeof flatTool>;

/** A custom tool, whose input is text instead of JSON. */
const customTool = Type.Object({
  type: Type.Literal('custom'),
  custom: Type.Object({
    ...named,
    format: optional(
      Type.Union([
        Type.Object({ type: Type.Literal('text') }),
        Type.Object({ type: Type.Literal('grammar'), grammar: Type.Object(grammarFields) }),
      ]),
    ),
  }),
});
const flatCustomTool = Type.Object({
  ...responsesTool.properties,
  custom: Type.Optional(Type.Never()),
});
export type CustomTool = Static<typeof customTool>;
export type FlatCustomTool = Static<typeof flatCustomTool>;

const chosenFunction = Type.Object({ name: Type.String({ minLength: 1 }) });
const chosenTool = Type.Object({ type: Type.Literal('function'), function: chosenFunction });
const flatChoice = Type.Object({ ...flat, ...chosenFunction.properties });
const chosenCustom = Type.Object({ type: Type.Literal('custom'), custom: chosenFunction });
export type FlatChoice = Static<typeof flatChoice>;
const allowedTools = Type.Object({
  type: Type.Literal('allowed_tools'),
  allowed_tools: Type.Object({
    mode: oneOf('auto', 'required'),
    tools: Type.Array(Type.Union([chosenTool, chosenCustom]), { minItems: 1, maxItems: 1024 }),
  }),
});
/** `any` is the name that Mistral's and Anthropic's clients use for `required`. */
const choiceMode = oneOf('none', 'auto', 'required', 'any');

const responseFormatSchema = Type.Union([
  Type.Object({ type: Type.Literal('text') }),
  Type.Object({ type: Type.Literal('json_object') }),
  Type.Object({
    type: Type.Literal('json_schema'),
    json_schema: Type.Object({
      name: Type.String({ minLength: 1, maxLength: 64 }),
      schema: Type.Optional(Type.Object({})),
      description: optional(Type.String()),
      strict: optional(Type.Boolean()),
    }),
  }),
]);

export const chatSchema = Type.Object({
  ...routingFields,
  messages: optional(Type.Array(messageSchema, { minItems: 1, maxItems: 10_000 })),
  input: optional(
    Type.Union([Type.String({ minLength: 1 }), Type.Array(Type.Object({}), { maxItems: 10_000 })]),
  ),
  instructions: optional(Type.String()),
  stream: optional(Type.Boolean()),
  stream_options: optional(Type.Object({ include_usage: optional(Type.Boolean()) })),
  usage: optional(Type.Object({ include: optional(Type.Boolean()) })),
  temperature: optional(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: optional(Type.Number({ minimum: 0, maximum: 1 })),
  max_tokens: optional(outputLimitSchema),
  max_completion_tokens: optional(outputLimitSchema),
  /** The output limit's name in Responses requests. */
  max_output_tokens: optional(outputLimitSchema),
  n: optional(Type.Integer({ minimum: 1, maximum: 16 })),
  tools: optional(
    Type.Array(Type.Union([functionTool, flatTool, customTool, flatCustomTool, searchToolSchema]), {
      maxItems: 1024,
    }),
  ),
  tool_choice: optional(
    Type.Union([choiceMode, chosenTool, flatChoice, chosenCustom, allowedTools]),
  ),
  parallel_tool_calls: optional(Type.Boolean()),
  /** OpenAI's older form of `tools`. */
  functions: optional(
    Type.Array(Type.Object({ ...named, parameters: optional(parameters) }), { maxItems: 1024 }),
  ),
  function_call: optional(Type.Union([oneOf('none', 'auto'), chosenFunction])),
  response_format: optional(responseFormatSchema),
  reasoning: optional(
    Type.Object({
      effort: optional(oneOf(...efforts)),
      budget_tokens: optional(Type.Integer({ minimum: 1 })),
      max_tokens: optional(Type.Integer({ minimum: 1 })),
      enabled: optional(Type.Boolean()),
      exclude: optional(Type.Boolean()),
    }),
  ),
  reasoning_effort: optional(oneOf(...efforts)),
  logprobs: optional(Type.Boolean()),
  top_logprobs: optional(Type.Integer({ minimum: 0, maximum: 20 })),
  logit_bias: optional(Type.Record(Type.String(), Type.Number({ minimum: -100, maximum: 100 }))),
  stop: optional(Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 16 })])),
  frequency_penalty: optional(Type.Number({ minimum: -2, maximum: 2 })),
  presence_penalty: optional(Type.Number({ minimum: -2, maximum: 2 })),
  seed: optional(Type.Integer()),
  user: label,
  /** OpenAI's new name for `user`. */
  safety_identifier: label,
  prompt_cache_key: label,
  verbosity: optional(oneOf('low', 'medium', 'high')),
  ...addedFields,
});
export type SentBody = Static<typeof chatSchema>;

/** The body with every tool in chat's own format. */
export type ChatBody = Omit<SentBody, 'tools' | 'tool_choice'> & {
  tools?: (FunctionTool | CustomTool | Static<typeof searchToolSchema>)[] | null;
  tool_choice?: Exclude<SentBody['tool_choice'], FlatChoice | 'any'>;
};

/** The body with `input`, if it was sent, converted to `messages`. */
export type MessagesBody = Omit<ChatBody, 'messages'> & {
  readonly messages: readonly ChatMessage[];
};
