import { Type } from 'typebox';
import { errorTable } from '../core/errors.ts';
import { nullable, oneOf } from '../core/schema.ts';
import type { ErrorShape } from '../http/routes.ts';
import { count, inlineRecord, record, text } from './route-doc.ts';

/** Refusals in the three shapes that clients know, as reply.ts writes them. */

const symbols = oneOf(...Object.keys(errorTable));
const message = text('One plain sentence.');

/** Also the shape of an error inside a stream. */
export const plainError = inlineRecord({
  message,
  type: symbols,
  code: count('The HTTP status.'),
  param: nullable(text('The field at fault, as a client would write it.')),
});

const plain = record('Error', { error: plainError });

const images = record('ImageError', {
  error: inlineRecord({ message, type: text(), code: symbols }),
});

const messages = record('MessagesError', {
  type: Type.Literal('error'),
  error: inlineRecord({ type: text(), message }),
  request_id: text(),
});

export const errorSchemas = { plain, images, messages } satisfies Record<ErrorShape, object>;
