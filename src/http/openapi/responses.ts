import { Type } from 'typebox';
import { nullable, oneOf } from '../../core/schema-builders.ts';
import { responsesSchema } from '../../dialects/responses/request-schema.ts';
import { count, credits, named, type RouteDoc, text } from './doc.ts';

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

const event = Type.Object(
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
    answers: { 200: { types: { 'application/json': response, 'text/event-stream': event } } },
  },
} satisfies Record<string, RouteDoc>;
