import { type Static, type TInteger, type TSchema, Type } from 'typebox';
import { Check } from 'typebox/schema';
import { invalidRequest } from '../core/errors.ts';
import { explain } from '../core/schema.ts';

/** One query parameter; the schema is the one that /openapi.json shows. */
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

interface Cap {
  readonly defaultValue: number;
  readonly max: number;
}

/** A count; one above the maximum, in however many digits, is answered with the maximum. */
export function readCapped(
  query: URLSearchParams,
  name: string,
  schema: TInteger,
  { defaultValue, max }: Cap,
): number {
  if (/^[1-9]\d{15,}$/.test(query.get(name) ?? '')) return max;
  return Math.min(readParameter(query, name, schema) ?? defaultValue, max);
}

/** The number or boolean that a text means, where the schema wants one; else the text itself. */
function coerce(text: string, { type }: TSchema & { readonly type?: string }): unknown {
  if (type === 'integer') return /^\d{1,16}$/.test(text) ? Number(text) : text;
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text;
  return text;
}

const integerMax = Number.MAX_SAFE_INTEGER;

export const cappedSchema = ({ defaultValue, max }: Cap) =>
  Type.Integer({
    minimum: 1,
    maximum: integerMax,
    default: defaultValue,
    description: `More than ${max} is answered with ${max}.`,
  });

const offsetSchema = Type.Integer({
  minimum: 0,
  maximum: integerMax,
  default: 0,
  description: 'Leave out so many at the beginning of the list.',
});

export const offsetQuery = { offset: offsetSchema };

const limitCap = { defaultValue: 50, max: 100 };
const limitSchema = cappedSchema(limitCap);

export const limitQuery = { limit: limitSchema };
