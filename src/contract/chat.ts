import { Type } from 'typebox';
import { nullable, oneOf } from '../core/schema.ts';
import { countSchema, messagesSchema } from '../dialects/anthropic/client/schema.ts';
import { chatSchema } from '../dialects/openai-chat/client/schema.ts';
import { responsesSchema } from '../dialects/responses/client/schema.ts';
import { errorSchemas } from './errors.ts';
import { count, named, type Shape, text } from './fields.ts';
import { chatRules, messagesRules, responsesRules } from './request-rules.ts';
import type { RouteDoc } from './route-doc.ts';

// Chats in three formats. Responses may have more fields than these, because providers add their
// own.

// OpenAI's Chat Completions.

const charge = Type.Number({
  description: 'The charge in whole credits, or in dollars below `/api/v1`.',
});

const usage = Type.Object(
  {
    prompt_tokens: count(),
    completion_tokens: count(),
    total_tokens: count(),
    prompt_tokens_details: Type.Optional(
      Type.Object({
        cached_tokens: count(),
        cache_write_tokens: Type.Optional(count()),
        audio_tokens: Type.Optional(count()),
      }),
    ),
    completion_tokens_details: Type.Optional(Type.Object({ reasoning_tokens: count() })),
    cost: Type.Optional(charge),
  },
  { title: 'Usage' },
);
export type ChatUsageObject = Shape<typeof usage>;

const functionCall = Type.Object({
  id: text(),
  type: Type.Literal('function'),
  function: Type.Object({ name: text(), arguments: text('JSON.') }),
});
export type ToolCallObject = Shape<typeof functionCall>;

const toolCall = Type.Union(
  [
    functionCall,
    Type.Object({
      id: text(),
      type: Type.Literal('custom'),
      custom: Type.Object({ name: text(), input: text() }),
    }),
  ],
  { title: 'ToolCall' },
);

const toolCallDelta = Type.Object({
  index: count('The index of the tool call.'),
  id: Type.Optional(text('Only in the first chunk of a call.')),
  type: Type.Optional(oneOf('function', 'custom')),
  function: Type.Optional(
    Type.Object({
      name: Type.Optional(text('Only in the first chunk of a call.')),
      arguments: Type.Optional(text('A part of the arguments. All parts together are JSON.')),
    }),
  ),
  custom: Type.Optional(
    Type.Object({
      name: Type.Optional(text('Only in the first chunk of a call.')),
      input: Type.Optional(text('A part of the input.')),
    }),
  ),
});

const completionIdentity = {
  id: text('`chatcmpl-` and the request ID without hyphens.'),
  created: count('Unix seconds.'),
  model: text('The alias of the model that answered.'),
  provider: Type.Optional(text('The provider that answered.')),
};
const finishReason = nullable(text('`stop`, `length`, `tool_calls`, or `content_filter`.'));

const completion = Type.Object(
  {
    ...completionIdentity,
    object: Type.Literal('chat.completion'),
    choices: Type.Array(
      Type.Object({
        index: count(),
        message: Type.Object({
          role: Type.Literal('assistant'),
          content: Type.Optional(nullable(text())),
          refusal: Type.Optional(nullable(text())),
          reasoning: Type.Optional(nullable(text())),
          tool_calls: Type.Optional(Type.Array(toolCall)),
        }),
        logprobs: Type.Optional(nullable(Type.Object({}))),
        finish_reason: finishReason,
      }),
    ),
    usage,
  },
  { title: 'ChatCompletion' },
);

const chunk = Type.Object(
  {
    ...completionIdentity,
    object: Type.Literal('chat.completion.chunk'),
    choices: Type.Array(
      Type.Object({
        index: count(),
        delta: Type.Object({
          role: Type.Optional(oneOf('assistant')),
          content: Type.Optional(nullable(text())),
          reasoning: Type.Optional(nullable(text())),
          tool_calls: Type.Optional(Type.Array(toolCallDelta)),
        }),
        finish_reason: Type.Optional(finishReason),
      }),
    ),
    usage: Type.Optional(nullable(usage)),
  },
  {
    title: 'ChatChunk',
    description:
      'The JSON of each `data:` line of the stream. The last line is `[DONE]`, or an error if the ' +
      'stream breaks.',
  },
);
export type ChatChunkObject = Shape<typeof chunk>;

const chatEvent = Type.Union([chunk, errorSchemas.chat]);
export type ChatEventObject = Shape<typeof chatEvent>;

export const chatDocs = {
  complete: {
    summary: 'Create a chat completion',
    details:
      'Compatible with OpenAI. `model` is an alias, `models` a list of aliases to try in order, ' +
      'and `provider` restricts the providers. Fields that are not listed are forwarded to ' +
      'OpenAI-style providers.',
    body: named('ChatRequest', chatRules(chatSchema)),
    example: { model: 'demo/chat', messages: [{ role: 'user', content: 'Hello!' }] },
    responses: {
      200: { types: { 'application/json': completion, 'text/event-stream': chatEvent } },
    },
  },
} satisfies Record<string, RouteDoc>;

// OpenAI's Responses.

const item = Type.Object(
  {
    type: text(
      '`message`, `reasoning`, `function_call`, `custom_tool_call`, or a provider-specific type.',
    ),
  },
  { title: 'OutputItem' },
);

const response = Type.Object(
  {
    id: text('`resp_` and the request ID without hyphens.'),
    object: Type.Literal('response'),
    created_at: count('Unix seconds.'),
    status: oneOf('completed', 'incomplete', 'in_progress', 'failed'),
    model: text('The alias of the model that answered.'),
    output: Type.Array(item),
    temperature: Type.Optional(nullable(Type.Number())),
    top_p: Type.Optional(nullable(Type.Number())),
    service_tier: Type.Optional(nullable(text('`default` for providers other than OpenAI.'))),
    tools: Type.Optional(
      Type.Array(Type.Object({ type: text() }), { description: "The request's tools." }),
    ),
    error: nullable(Type.Object({ code: text(), message: text() })),
    incomplete_details: nullable(
      Type.Object({ reason: text('`max_output_tokens` or `content_filter`.') }),
    ),
    usage: nullable(
      Type.Object({
        input_tokens: count('Includes cached tokens.'),
        input_tokens_details: Type.Optional(Type.Object({ cached_tokens: count() })),
        output_tokens: count('Includes reasoning tokens.'),
        output_tokens_details: Type.Optional(Type.Object({ reasoning_tokens: count() })),
        total_tokens: count(),
        cost: charge,
      }),
    ),
  },
  { title: 'Response' },
);

const responseEvent = Type.Object(
  {
    type: text(
      '`response.created`, `response.output_item.added`, `response.output_text.delta`, and so on, ' +
        'ending with `response.completed`, `response.incomplete`, or `response.failed`.',
    ),
    sequence_number: count('Counts up from 0.'),
  },
  {
    title: 'ResponseEvent',
    description: 'The JSON of each event in the stream. The `event:` line has its type.',
  },
);

export const responsesDocs = {
  create: {
    summary: 'Create a response',
    details:
      'Compatible with OpenAI for every provider, except that responses are not stored: `store` ' +
      'has no effect, and references to earlier responses are rejected. `models`, `provider`, ' +
      'and `route` work as they do for chat completions. Fields that are not listed are ' +
      'forwarded to OpenAI-style providers.',
    body: named('ResponsesRequest', responsesRules(responsesSchema)),
    example: { model: 'demo/chat', input: 'Hello!' },
    responses: {
      200: { types: { 'application/json': response, 'text/event-stream': responseEvent } },
    },
  },
} satisfies Record<string, RouteDoc>;

// Anthropic's Messages.

const block = Type.Object(
  {
    type: text('`text`, `thinking`, `redacted_thinking`, `tool_use`, or a provider-specific type.'),
    text: Type.Optional(text('For `text`.')),
    thinking: Type.Optional(text('For `thinking`.')),
    signature: Type.Optional(text('For `thinking`; send it back unchanged.')),
    data: Type.Optional(text('For `redacted_thinking`; send it back unchanged.')),
    id: Type.Optional(text('For `tool_use`.')),
    name: Type.Optional(text('For `tool_use`.')),
    input: Type.Optional(Type.Unknown({ description: 'For `tool_use`: the arguments.' })),
  },
  { title: 'ContentBlock' },
);

const message = Type.Object(
  {
    id: text('`msg_` and the request ID without hyphens.'),
    type: Type.Literal('message'),
    role: Type.Literal('assistant'),
    model: text('The alias of the model that answered.'),
    content: Type.Array(block),
    stop_reason: nullable(
      text(
        '`end_turn`, `max_tokens`, `stop_sequence`, `tool_use`, `pause_turn`, or `refusal`; ' +
          'null at the start of a stream.',
      ),
    ),
    stop_sequence: Type.Optional(nullable(text())),
    usage: Type.Object({
      input_tokens: count('Without cached tokens.'),
      cache_creation_input_tokens: Type.Optional(nullable(count())),
      cache_creation: Type.Optional(
        nullable(
          Type.Object({ ephemeral_5m_input_tokens: count(), ephemeral_1h_input_tokens: count() }),
        ),
      ),
      cache_read_input_tokens: Type.Optional(nullable(count())),
      output_tokens: count(),
    }),
  },
  { title: 'Message' },
);

const messageEvent = Type.Object(
  {
    type: text(
      '`message_start`, `content_block_start`, `content_block_delta`, `content_block_stop`, ' +
        '`message_delta`, `message_stop`, `ping`, or `error`.',
    ),
  },
  {
    title: 'MessageEvent',
    description: 'The JSON of each event in the stream. The `event:` line has its type.',
  },
);

const tokenCountSchema = Type.Object({
  input_tokens: count(),
  context_management: Type.Optional(Type.Object({ original_input_tokens: count() })),
});
export type TokenCountObject = Shape<typeof tokenCountSchema>;

const messages = [{ role: 'user', content: 'Hello!' }];

export const messagesDocs = {
  create: {
    summary: 'Create a message',
    alsoAt: '/v1/anthropic/messages',
    details:
      'Compatible with Anthropic for every provider. `/v1/messages` and ' +
      '`/v1/anthropic/messages` are the same. `models`, `provider`, and `route` work as they do ' +
      'for chat completions. Fields that are not listed are forwarded to Anthropic-style ' +
      'providers.',
    body: named('MessagesRequest', messagesRules(messagesSchema)),
    example: { model: 'demo/chat', max_tokens: 256, messages },
    responses: {
      200: { types: { 'application/json': message, 'text/event-stream': messageEvent } },
    },
  },
  count: {
    summary: 'Count the input tokens of a message',
    alsoAt: '/v1/anthropic/messages/count_tokens',
    details:
      'For an Anthropic-style provider, the request is sent to the provider, which counts the ' +
      'tokens. For other providers, and if that call fails, the gateway estimates the number. ' +
      'The call is free.',
    body: named('CountTokensRequest', messagesRules(countSchema)),
    example: { model: 'demo/chat', messages },
    responses: { 200: tokenCountSchema },
  },
} satisfies Record<string, RouteDoc>;
