import { type Static, type TProperties, type TSchema, Type } from 'typebox';
import { nameLengthMax } from '../core/bounds.ts';
import { definedFields } from '../core/json.ts';
import { oneOf } from '../core/schema.ts';

// The building blocks of request and response schemas.

/** The type of the JSON value that a schema describes. The code that builds the value uses it. */
export type Shape<S extends TSchema> = DeepReadonly<Static<S>>;

type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Name in keyof T]: DeepReadonly<T[Name]> }
    : T;

// Fields of responses.

export const credits = (description = 'Whole credits.') => Type.Integer({ description });
export const count = (description?: string) =>
  Type.Integer({ minimum: 0, ...definedFields({ description }) });
export const text = (description?: string) => Type.String(definedFields({ description }));
export const time = (description = 'UTC.') => Type.String({ format: 'date-time', description });
export const file = (description?: string) =>
  Type.String({ format: 'binary', ...definedFields({ description }) });
export const trafficMode = oneOf('shared', 'byok');
export const requestStatus = oneOf('success', 'error');

/** Defines an object with exactly these fields. The title names it in OpenAPI. */
export function record<P extends TProperties>(title: string, properties: P, description?: string) {
  return Type.Object(properties, {
    title,
    additionalProperties: false,
    ...definedFields({ description }),
  });
}

/** Defines an object without a name: OpenAPI describes it where it is used. */
export function inlineRecord<P extends TProperties>(properties: P) {
  return Type.Object(properties, { additionalProperties: false });
}

/** The envelope of most responses. */
export const data = <S extends TSchema>(schema: S) => inlineRecord({ data: schema });

export const deletedSchema = inlineRecord({ deleted: Type.Literal(true) });
export const deletedObject: Shape<typeof deletedSchema> = { deleted: true };

// Fields of requests.

/** Names a request schema, so that OpenAPI describes it once. */
export const named = <S extends TSchema>(title: string, schema: S): S => ({ ...schema, title });

/** A multipart form, as the content of a request body. */
export const form = (title: string, fields: TProperties) => ({
  'multipart/form-data': Type.Object(fields, { title }),
});

export const mebibytes = (bytes: number) => `${bytes / 2 ** 20} MiB`;

/**
 * One line of text that is safe in a terminal, a log line, and a spreadsheet: no control
 * characters, line separators, bidirectional overrides, or lone surrogates (databases can't store
 * those). If there is a minimum length, at least one character must be visible, because a blank
 * name looks like a gap in a list.
 */
export function lineField(lengthMin: number, lengthMax: number) {
  // Literal characters, because many regular expression engines reject escapes of surrogates.
  const visible = '[ -~\xa0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\u{10ffff}]';
  const hasVisible = lengthMin > 0 ? '(?=.*[^\\s\\xad\\u200b-\\u200f\\u2060-\\u2064])' : '';
  const blanks = lengthMin > 0 ? ', not only spaces,' : '';
  return Type.String({
    pattern: `^${hasVisible}${visible}{${lengthMin},${lengthMax}}$`,
    expected:
      `${lengthMin} to ${lengthMax} characters${blanks} ` +
      'without line breaks or control characters',
  });
}

export function nameField() {
  return lineField(1, nameLengthMax);
}

/** An integer with a lower bound. Numbers above 2^53 - 1 are rejected: they would be inexact. */
export function countField(minimum: number) {
  const expected = `a whole number of at least ${minimum}`;
  return Type.Integer({ minimum, maximum: Number.MAX_SAFE_INTEGER, expected });
}
