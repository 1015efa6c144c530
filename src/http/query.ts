import { type Static, type TInteger, type TSchema, Type } from 'typebox';
import { Check } from 'typebox/schema';
import { invalidRequest } from '../core/errors.ts';
import { explain } from '../core/explain.ts';

/** One query parameter; the schema is the one that /openapi.json shows. */
export function readParameter<S extends TSchema>(
  query: URLSearchParams,
  name: string,
  schema: S,
): Static<S> | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = meant(text, schema);
  if (Check(schema, value)) return value as Static<S>;
  const [problem] = explain(schema, value);
  throw invalidRequest(`${name} ${problem?.message ?? 'is not valid'}.`, name);
}

export function readOffset(query: URLSearchParams): number {
  return readParameter(query, 'offset', offsetSchema) ?? 0;
}

export function readLimit(query: URLSearchParams): number {
  return readCapped(query, 'limit', limitSchema, limit);
}

interface Cap {
  readonly usual: number;
  readonly most: number;
}

/** A count; one above the maximum, in however many digits, is answered with the maximum. */
export function readCapped(
  query: URLSearchParams,
  name: string,
  schema: TInteger,
  { usual, most }: Cap,
): number {
  if (/^[1-9]\d{15,}$/.test(query.get(name) ?? '')) return most;
  return Math.min(readParameter(query, name, schema) ?? usual, most);
}

/** The number or boolean that a text means, where the schema wants one; else the text itself. */
function meant(text: string, { type }: TSchema & { readonly type?: string }): unknown {
  if (type === 'integer') return /^\d{1,16}$/.test(text) ? Number(text) : text;
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text;
  return text;
}

const largest = Number.MAX_SAFE_INTEGER;

export const cappedSchema = ({ usual, most }: Cap) =>
  Type.Integer({
    minimum: 1,
    maximum: largest,
    default: usual,
    description: `More than ${most} is answered with ${most}.`,
  });

const offsetSchema = Type.Integer({
  minimum: 0,
  maximum: largest,
  default: 0,
  description: 'Leave out so many at the beginning of the list.',
});

export const offsetQuery = { offset: offsetSchema };

const limit = { usual: 50, most: 100 };
const limitSchema = cappedSchema(limit);

export const limitQuery = { limit: limitSchema };
