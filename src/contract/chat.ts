import { Type } from 'typebox';
import { nullable, oneOf } from '../core/schema.ts';
import { countSchema, messagesSchema } from '../dialects/anthropic/client/schema.ts';
import { chatSchema } from '../dialects/openai-chat/client/schema.ts';
import { responsesSchema } from '../dialects/responses/client/schema.ts';
import { plainError } from './errors.ts';
import { count, credits, named, type RouteDoc, text } from './route-doc.ts';

/** Answers of a chat. Providers may say more than this, so these records stay open. */

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
    cost: Type.Optional(credits('What was charged for it, whole credits.')),
  },
  { title: 'Usage' },
);

const toolCall = Type.Object(
  {
    id: text(),
    type: Type.Literal('function'),
    function: Type.Object({ name: text(), arguments: text('JSON.') }),
  },
  { title: 'ToolCall' },
);

const toolCallDelta = Type.Object({
  index: count('Which of the calls it belongs to.'),
  id: Type.Optional(text('On the first piece.')),
  type: Type.Optional(Type.Literal('function')),
  function: Type.Optional(
    Type.Object({
      name: Type.Optional(text('On the first piece.')),
      arguments: Type.Optional(text('To be joined; together they are JSON.')),
    }),
  ),
});

const completionIdentity = {
  id: text('`chatcmpl-` and the request id without dashes.'),
  created: count('Unix seconds.'),
  model: text('The alias that answered.'),
  provider: Type.Optional(text('The provider that answered.')),
};
const finishReason = nullable(text('`stop`, `length`, `tool_calls` or `content_filter`.'));

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
          reasoning: Type.Optional(nullable(text())),
          tool_calls: Type.Optional(Type.Array(toolCall)),
        }),
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
    error: Type.Optional(plainError),
  },
  {
    title: 'ChatChunk',
    description: 'Each `data:` line of the stream is one of these; the last one says `[DONE]`.',
  },
);

export const chatDocs = {
  complete: {
    summary: 'Complete a chat',
    details:
      'As at OpenAI. `model` is an alias; `models` is a chain of aliases to try in order, ' +
      '`provider` says where. Fields that are not listed pass on to providers of that kind.',
    body: named('ChatRequest', chatSchema),
    example: { model: 'demo/chat', messages: [{ role: 'user', content: 'Hello!' }] },
    answers: { 200: { types: { 'application/json': completion, 'text/event-stream': chunk } } },
  },
} satisfies Record<string, RouteDoc>;

/** Answers in the words of the Responses API. Providers may say more, so these stay open. */

const item = Type.Object(
  {
    type: text('`message`, `reasoning`, `function_call`, `custom_tool_call`; providers have more.'),
  },
  { title: 'OutputItem' },
);

const response = Type.Object(
  {
    id: text('`resp_` and the request id without dashes.'),
    object: Type.Literal('response'),
    created_at: count('Unix seconds.'),
    status: oneOf('completed', 'incomplete', 'in_progress', 'failed'),
    model: text('The alias that answered.'),
    output: Type.Array(item),
    error: nullable(Type.Object({ code: text(), message: text() })),
    incomplete_details: nullable(
      Type.Object({ reason: text('`max_output_tokens` or `content_filter`.') }),
    ),
    usage: nullable(
      Type.Object({
        input_tokens: count('With those of the cache.'),
        input_tokens_details: Type.Optional(Type.Object({ cached_tokens: count() })),
        output_tokens: count('With those of the reasoning.'),
        output_tokens_details: Type.Optional(Type.Object({ reasoning_tokens: count() })),
        total_tokens: count(),
        cost: credits('What was charged for it, whole credits.'),
      }),
    ),
  },
  { title: 'Response' },
);

const responseEvent = Type.Object(
  {
    type: text(
      '`response.created`, `response.output_item.added`, `response.output_text.delta` and so on, ' +
        'up to `response.completed`, `response.incomplete` or `response.failed`.',
    ),
    sequence_number: count('Rises by one, from 0.'),
  },
  { title: 'ResponseEvent', description: 'Each event of the stream; `event:` repeats its type.' },
);

export const responsesDocs = {
  create: {
    summary: 'Create a response',
    details:
      'As at OpenAI, whichever provider serves the model, but nothing is kept: `store` changes ' +
      'nothing, and what refers to an earlier response is refused. `models`, `provider` and ' +
      '`route` work as they do for chats. Fields that are not listed pass on to providers of ' +
      'that kind.',
    body: named('ResponsesRequest', responsesSchema),
    example: { model: 'demo/chat', input: 'Hello!' },
    answers: {
      200: { types: { 'application/json': response, 'text/event-stream': responseEvent } },
    },
  },
} satisfies Record<string, RouteDoc>;

/** Answers in Anthropic's words. Providers may say more than this, so these records stay open. */

const block = Type.Object(
  {
    type: text('`text`, `thinking`, `redacted_thinking`, `tool_use`; providers have more.'),
    text: Type.Optional(text('Of a `text`.')),
    thinking: Type.Optional(text('Of a `thinking`.')),
    signature: Type.Optional(text('Of a `thinking`; it goes back as it came.')),
    data: Type.Optional(text('Of a `redacted_thinking`; it goes back as it came.')),
    id: Type.Optional(text('Of a `tool_use`.')),
    name: Type.Optional(text('Of a `tool_use`.')),
    input: Type.Optional(Type.Unknown({ description: 'Of a `tool_use`: its arguments.' })),
  },
  { title: 'ContentBlock' },
);

const message = Type.Object(
  {
    id: text('`msg_` and the request id without dashes.'),
    type: Type.Literal('message'),
    role: Type.Literal('assistant'),
    model: text('The alias that answered.'),
    content: Type.Array(block),
    stop_reason: nullable(
      text(
        '`end_turn`, `max_tokens`, `stop_sequence`, `tool_use`, `pause_turn` or `refusal`; ' +
          'null at the beginning of a stream.',
      ),
    ),
    stop_sequence: Type.Optional(nullable(text())),
    usage: Type.Object({
      input_tokens: count('Without those of the cache.'),
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
        '`message_delta`, `message_stop`, `ping` or `error`.',
    ),
  },
  { title: 'MessageEvent', description: 'Each event of the stream; `event:` repeats its type.' },
);

const messages = [{ role: 'user', content: 'Hello!' }];

export const messagesDocs = {
  create: {
    summary: 'Create a message',
    alsoAt: '/v1/anthropic/messages',
    details:
      'As at Anthropic, whichever provider serves the model. `/v1/messages` and ' +
      '`/v1/anthropic/messages` are the same. `models`, `provider` and `route` work as they do ' +
      'for chats. Fields that are not listed pass on to providers of that kind.',
    body: named('MessagesRequest', messagesSchema),
    example: { model: 'demo/chat', max_tokens: 256, messages },
    answers: { 200: { types: { 'application/json': message, 'text/event-stream': messageEvent } } },
  },
  count: {
    summary: 'Count the input tokens of a message',
    alsoAt: '/v1/anthropic/messages/count_tokens',
    details:
      'By the provider where it is Anthropic-style, which then gets the request; else, and where ' +
      'it does not answer, an estimate made here. Nothing is charged.',
    body: named('CountTokensRequest', countSchema),
    example: { model: 'demo/chat', messages },
    answers: {
      200: Type.Object({
        input_tokens: count(),
        context_management: Type.Optional(Type.Object({ original_input_tokens: count() })),
      }),
    },
  },
} satisfies Record<string, RouteDoc>;
