import { Type } from 'typebox';
import { nullable, oneOf } from '../../core/schema-builders.ts';
import { chatSchema } from '../../dialects/openai/chat-schema.ts';
import { count, credits, named, type RouteDoc, text } from './doc.ts';
import { plainError } from './errors.ts';

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

const callPiece = Type.Object({
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

const identity = {
  id: text('`chatcmpl-` and the request id without dashes.'),
  created: count('Unix seconds.'),
  model: text('The alias that answered.'),
  provider: Type.Optional(text('The provider that answered.')),
};
const finishReason = nullable(text('`stop`, `length`, `tool_calls` or `content_filter`.'));

const completion = Type.Object(
  {
    ...identity,
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
    ...identity,
    object: Type.Literal('chat.completion.chunk'),
    choices: Type.Array(
      Type.Object({
        index: count(),
        delta: Type.Object({
          role: Type.Optional(oneOf('assistant')),
          content: Type.Optional(nullable(text())),
          reasoning: Type.Optional(nullable(text())),
          tool_calls: Type.Optional(Type.Array(callPiece)),
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
