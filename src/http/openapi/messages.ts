import { Type } from 'typebox';
import { nullable } from '../../core/schema-builders.ts';
import { countSchema, messagesSchema } from '../../dialects/anthropic/messages-schema.ts';
import { count, named, type RouteDoc, text } from './doc.ts';

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

const event = Type.Object(
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
    answers: { 200: { types: { 'application/json': message, 'text/event-stream': event } } },
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
