import { Type } from 'typebox';
import { errorTable } from '../../core/errors.ts';
import { nullable } from '../../core/schema-builders.ts';
import type { ErrorShape } from '../exchange.ts';
import { count, record, text, words } from './doc.ts';

/** Refusals in the three shapes that clients know, as reply.ts writes them. */

const symbols = words(...Object.keys(errorTable));
const message = text('One plain sentence.');

const plain = record('Error', {
  error: Type.Object(
    {
      message,
      type: symbols,
      code: count('The HTTP status.'),
      param: nullable(text('The field at fault, as a client would write it.')),
    },
    { additionalProperties: false },
  ),
});

const images = record('ImageError', {
  error: Type.Object({ message, type: text(), code: symbols }, { additionalProperties: false }),
});

const messages = record('MessagesError', {
  type: Type.Literal('error'),
  error: Type.Object({ type: text(), message }, { additionalProperties: false }),
  request_id: text(),
});

export const errorSchemas = { plain, images, messages } satisfies Record<ErrorShape, object>;
