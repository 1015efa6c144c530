import { Type } from 'typebox';
import { errorTable } from '../core/errors.ts';
import { nullable, oneOf } from '../core/schema.ts';
import { count, inlineRecord, record, type Shape, text } from './fields.ts';

// Error bodies in the three shapes that clients expect.

const symbols = oneOf(...Object.keys(errorTable));
const message = text('One plain sentence.');

/** Also the shape of an error inside a stream. */
export const plainError = inlineRecord({
  message,
  type: symbols,
  code: count('The HTTP status.'),
  param: nullable(text('The invalid field, as a path such as `messages[2].content`.')),
});

export const errorSchemas = {
  plain: record('Error', { error: plainError }),
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

/** `plain` is OpenAI's shape, `images` has a string code, `messages` is Anthropic's shape. */
export type ErrorShape = keyof typeof errorSchemas;

export type ErrorObject = Shape<(typeof errorSchemas)[ErrorShape]>;
