import { type TObject, type TProperties, type TSchema, Type } from 'typebox';
import { oneOf, optional } from '../core/schema.ts';
import {
  contentMessageSchema,
  type countSchema,
  customToolSchema,
  type messagesSchema,
  toolListSchema,
} from '../dialects/anthropic/client/schema.ts';
import type { chatSchema } from '../dialects/openai-chat/client/schema.ts';
import {
  inputListSchema,
  type responsesSchema,
  toolListSchema as responsesToolListSchema,
} from '../dialects/responses/client/schema.ts';

// Rules that code checks instead of a schema, so that its messages can say what to do instead. The
// OpenAPI document states them, so that no client generates a request that is always rejected.

/** Adds rules that apply to a value in addition to its schema. */
function withRules<S extends TSchema>(schema: S, ...allOf: readonly TSchema[]): S {
  return { ...schema, allOf };
}

/** Adds rules that apply to each item of a list. */
function withItemRules<S extends TSchema>(list: S, ...rules: readonly TSchema[]): S {
  const { items } = list as S & { readonly items: TSchema };
  return { ...list, items: withRules(items, ...rules) };
}

/** Replaces the schemas of some fields. */
export function withFields(schema: TObject, fields: TProperties): TObject {
  return { ...schema, properties: { ...schema.properties, ...fields } };
}

const namesModel = Type.Union([
  Type.Object({ model: Type.String() }),
  Type.Object({ models: Type.Array(Type.String(), { minItems: 1 }) }),
]);

/** A request names its model in `model` or `models`. */
export const withModel = (schema: TObject) => withRules(schema, namesModel);

const hasMessages = Type.Object({ messages: Type.Array(Type.Unknown()) });
const hasInput = Type.Object({
  input: Type.Union([Type.String(), Type.Array(Type.Unknown())]),
});
const eitherMessagesOrInput: TSchema = { oneOf: [hasMessages, hasInput] };

export const chatRules = (schema: typeof chatSchema) =>
  withRules(schema, namesModel, eitherMessagesOrInput);

/** A message without content may only change settings. */
const settingsMessage = Type.Object({
  role: Type.Literal('system'),
  output_config: Type.Object({}),
});
const isOtherType: TSchema = { type: 'string', not: { const: 'custom' } };
const providerTool = Type.Object({ type: isOtherType });

export const messagesRules = (schema: typeof messagesSchema | typeof countSchema) =>
  withModel(
    withFields(schema, {
      messages: withItemRules(
        schema.properties.messages,
        Type.Union([contentMessageSchema, settingsMessage]),
      ),
      tools: optional(withItemRules(toolListSchema, Type.Union([customToolSchema, providerTool]))),
    }),
  );

const hasType = Type.Object({ type: Type.String() });
const hasRole = Type.Object({ role: oneOf('user', 'assistant', 'system', 'developer') });

/** Nothing is stored here, so fields that refer to stored data must be unset. */
export const responsesRules = (schema: typeof responsesSchema) =>
  withModel(
    withFields(schema, {
      input: Type.Union([
        Type.String({ minLength: 1 }),
        withItemRules(inputListSchema, Type.Union([hasType, hasRole])),
      ]),
      tools: optional(withItemRules(responsesToolListSchema, hasType)),
      background: optional(Type.Literal(false)),
      previous_response_id: Type.Optional(Type.Null()),
      conversation: Type.Optional(Type.Null()),
      prompt: Type.Optional(Type.Null()),
    }),
  );
