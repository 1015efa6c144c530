import { Type } from 'typebox';
import { errorTable } from '../core/errors.ts';
import { nullable, oneOf } from '../core/schema.ts';
import { count, inlineRecord, record, type Shape, text } from './fields.ts';

// Error bodies in the four shapes that clients expect.

const symbols = oneOf(...Object.keys(errorTable));
const message = text('One plain sentence.');

const param = nullable(text('The invalid field, as a path such as `messages[2].content`.'));
const statusOrName = Type.Union([count('The HTTP status.'), symbols], {
  description:
    'The HTTP status, or the same as `type` if the gateway has `chat_error_codes: name`.',
});

export const errorSchemas = {
  plain: record('Error', { error: inlineRecord({ message, type: symbols, code: symbols, param }) }),
  chat: record('ChatError', {
    error: inlineRecord({ message, type: symbols, code: statusOrName, param }),
  }),
  images: record('ImageError', {
    error: inlineRecord({ message, type: text(), code: symbols }),
  }),
  messages: record('MessagesError', {
    type: Type.Literal('error'),
    error: inlineRecord({
      type: text(),
      message,
      details: Type.Optional(
        inlineRecord({ error_code: text(), unsupported: Type.Array(Type.String()) }),
      ),
    }),
    request_id: text(),
  }),
};

/**
 * `plain` is OpenAI's shape. In `chat`, the code is the HTTP status. `images` has OpenAI's types
 * and no `param`. `messages` is Anthropic's shape.
 */
export type ErrorShape = keyof typeof errorSchemas;

export type ErrorObject = Shape<(typeof errorSchemas)[ErrorShape]>;
