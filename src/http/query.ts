import type { Static, TInteger, TSchema } from 'typebox';
import { Check } from 'typebox/schema';
import { type Cap, limitCap, limitSchema, offsetSchema } from '../contract/query.ts';
import { invalidRequest } from '../core/errors.ts';
import { explain } from '../core/schema.ts';

/** Reads and validates a query parameter with the schema in the OpenAPI document. Throws 400. */
export function readParameter<S extends TSchema>(
  query: URLSearchParams,
  name: string,
  schema: S,
): Static<S> | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = coerce(text, schema);
  if (Check(schema, value)) return value as Static<S>;
  const [problem] = explain(schema, value);
  throw invalidRequest(`${name} ${problem?.message ?? 'is not valid'}.`, name);
}

export function readOffset(query: URLSearchParams): number {
  return readParameter(query, 'offset', offsetSchema) ?? 0;
}

export function readLimit(query: URLSearchParams): number {
  return readCapped(query, 'limit', limitSchema, limitCap);
}

/** Reads a count and lowers it to the maximum, even if it is larger than any safe integer. */
export function readCapped(
  query: URLSearchParams,
  name: string,
  schema: TInteger,
  { defaultValue, max }: Cap,
): number {
  if (/^[1-9]\d{15,}$/.test(query.get(name) ?? '')) return max;
  return Math.min(readParameter(query, name, schema) ?? defaultValue, max);
}

/** Converts the text to the number or boolean that the schema expects, if it is one. */
function coerce(text: string, { type }: TSchema & { readonly type?: string }): unknown {
  if (type === 'integer') return /^\d{1,16}$/.test(text) ? Number(text) : text;
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text;
  return text;
}
