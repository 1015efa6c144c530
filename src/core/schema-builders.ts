import { type TSchema, Type } from 'typebox';

/** Schema builders that are shared by rooms that may not import each other. */

export function nullable<S extends TSchema>(schema: S) {
  return Type.Union([schema, Type.Null()]);
}

/** May be left out; `null` says the same, as SDKs write it for «not set». */
export function optional<S extends TSchema>(schema: S) {
  return Type.Optional(nullable(schema));
}

export function oneOf<const V extends readonly string[]>(...values: V) {
  return Type.Unsafe<V[number]>(Type.Enum([...values]));
}

export function wholeNumber(minimum: number, maximum = Number.MAX_SAFE_INTEGER) {
  return Type.Integer({ minimum, maximum });
}
