/** Numbers and texts that satisfy a JSON schema. */
import type { Schema } from './schema-sample.ts';

/** A schema may demand a text of any length; longer ones than this are not made. */
const charactersMax = 1_000;

const formatSamples: Readonly<Record<string, string>> = {
  date: '2025-01-31',
  'date-time': '2025-01-31T12:00:00Z',
  time: '12:00:00Z',
  email: 'demo@example.com',
  hostname: 'demo.example.com',
  ipv4: '192.0.2.1',
  uri: 'https://example.com/demo',
  uuid: '00000000-0000-4000-8000-000000000000',
};

export function sampleString(schema: Schema, name: string): string {
  const { format } = schema;
  const known = typeof format === 'string' && Object.hasOwn(formatSamples, format);
  if (known) return formatSamples[format] ?? '';
  const min = Math.min(numberOr(schema.minLength, 0), charactersMax);
  const max = Math.min(numberOr(schema.maxLength, charactersMax), charactersMax);
  const characters = Array.from(`demo ${name}`.slice(0, charactersMax));
  while (characters.length < min) characters.push('.');
  return characters.slice(0, Math.max(0, max)).join('');
}

/** The allowed number nearest to 1. */
export function sampleNumber(schema: Schema): number {
  const isInteger = schema.type === 'integer';
  const step = numberOr(schema.multipleOf, isInteger ? 1 : 0);
  const over = numberOr(schema.exclusiveMinimum, Number.NEGATIVE_INFINITY);
  const under = numberOr(schema.exclusiveMaximum, Number.POSITIVE_INFINITY);
  const min = numberOr(schema.minimum, Number.NEGATIVE_INFINITY);
  const max = numberOr(schema.maximum, Number.POSITIVE_INFINITY);
  // Keeps a distance from excluded ends, however narrow the range between them is.
  const margin = Math.min(1, (Math.min(max, under) - Math.max(min, over)) / 2);
  const low = Math.max(min, isInteger ? Math.floor(over) + 1 : over + margin);
  const high = Math.min(max, isInteger ? Math.ceil(under) - 1 : under - margin);
  const nearest = Math.min(Math.max(1, low), high);
  if (step <= 0) return nearest;
  const above = Math.ceil(nearest / step) * step;
  return above <= high ? above : Math.floor(nearest / step) * step;
}

/** JSON can hold numbers such as 1e999, too large for a double: they count as absent. */
function numberOr(value: unknown, otherwise: number): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
}
