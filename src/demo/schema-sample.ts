import { fieldsOf, isObject, itemsOf } from '../core/json.ts';

// Creates a value that satisfies a JSON schema, and always the same value for the same schema.
// Supports the keywords that are common in requests to models, but not `pattern`, `not`, or
// conditions.

type Schema = Readonly<Record<string, unknown>>;

/**
 * Beyond `soft`, the sample grows only where the schema requires it, so that the sample of a
 * recursive schema ends. Beyond `hard`, the sample ends even if it is invalid, because a schema can
 * require billions of values.
 */
const depthBounds = { soft: 8, hard: 32 };
const valueBounds = { soft: 1_000, hard: 2_000 };
const itemsMax = 32;
/** The maximum number of references and branches followed for one value, which may be circular. */
const hopsMax = 16;

export function sampleSchema(schema: unknown): unknown {
  return new Sampler(schema).sample(schema, 'value', 0);
}

class Sampler {
  readonly #root: unknown;
  #values = 0;

  constructor(root: unknown) {
    this.#root = root;
  }

  /** Returns a sample. `name` is the name of its property, used in sample strings. */
  sample(rawSchema: unknown, name: string, depth: number): unknown {
    this.#values += 1;
    if (depth > depthBounds.hard || this.#values > valueBounds.hard) return null;
    const mustStaySmall = depth >= depthBounds.soft || this.#values >= valueBounds.soft;
    const schema = this.#resolve(fieldsOf(rawSchema), mustStaySmall);
    if (Object.hasOwn(schema, 'const')) return schema.const;
    if (Array.isArray(schema.enum) && schema.enum.length > 0) return schema.enum[0];
    switch (typeOf(schema, mustStaySmall)) {
      case 'object':
        return this.#sampleObject(schema, depth);
      case 'array':
        return this.#sampleArray(schema, name, depth, mustStaySmall);
      case 'integer':
      case 'number':
        return sampleNumber(schema);
      case 'boolean':
        return true;
      case 'null':
        return null;
      default:
        return sampleString(schema, name);
    }
  }

  #sampleObject(schema: Schema, depth: number): Record<string, unknown> {
    const properties = fieldsOf(schema.properties);
    const required = itemsOf(schema.required).filter((name) => typeof name === 'string');
    // If no property is required, an empty object would be valid but not useful.
    const isShown = required.length === 0 && depth <= 1;
    const names = isShown ? Object.keys(properties) : [...new Set(required)];
    const entries: [string, unknown][] = [];
    for (const name of names) {
      if (this.#values > valueBounds.hard) break;
      const isKnown = Object.hasOwn(properties, name);
      const property = isKnown ? properties[name] : schema.additionalProperties;
      entries.push([name, this.sample(property, name, depth + 1)]);
    }
    // Unlike assignment, this makes `__proto__` a property like any other.
    return Object.fromEntries(entries);
  }

  #sampleArray(schema: Schema, name: string, depth: number, mustStaySmall: boolean): unknown[] {
    const prefix = itemsOf(schema.prefixItems);
    const min = typeof schema.minItems === 'number' ? schema.minItems : 0;
    const max = typeof schema.maxItems === 'number' ? schema.maxItems : itemsMax;
    const preferred = mustStaySmall ? min : Math.max(min, prefix.length, 1);
    const length = Math.max(0, Math.min(Math.ceil(preferred), Math.floor(max), itemsMax));
    return Array.from({ length }, (_, index) =>
      this.sample(index < prefix.length ? prefix[index] : schema.items, name, depth + 1),
    );
  }

  /** Follows references and picks branches until the schema describes a value directly. */
  #resolve(rawSchema: Schema, mustStaySmall: boolean): Schema {
    let schema = rawSchema;
    for (let hop = 0; hop < hopsMax; hop += 1) {
      const { $ref, anyOf, oneOf, allOf, ...rest } = schema;
      if (typeof $ref === 'string') {
        schema = merge({ ...rest, anyOf, oneOf, allOf }, this.#lookUp($ref));
      } else if (Array.isArray(allOf)) {
        schema = [{ ...rest, anyOf, oneOf }, ...allOf].reduce<Schema>(merge, {});
      } else if (Array.isArray(anyOf)) {
        schema = merge({ ...rest, oneOf }, pickBranch(anyOf, mustStaySmall));
      } else if (Array.isArray(oneOf)) {
        schema = merge(rest, pickBranch(oneOf, mustStaySmall));
      } else {
        return rest;
      }
    }
    return {};
  }

  /** Resolves a JSON pointer into the schema itself, such as `#/$defs/Person`. */
  #lookUp(reference: string): unknown {
    let found: unknown = this.#root;
    for (const part of reference.split('/').slice(1)) {
      const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
      found = isObject(found) && Object.hasOwn(found, key) ? found[key] : undefined;
    }
    return found;
  }
}

function merge(left: Schema, right: unknown): Schema {
  if (!isObject(right)) return left;
  return {
    ...left,
    ...right,
    ...(isObject(left.properties) && isObject(right.properties)
      ? { properties: { ...left.properties, ...right.properties } }
      : {}),
    required: [...itemsOf(left.required), ...itemsOf(right.required)],
  };
}

/** Returns the first branch, or a scalar one if the sample has to end soon. */
function pickBranch(branches: readonly unknown[], mustStaySmall: boolean): unknown {
  return (mustStaySmall ? branches.find(isScalar) : undefined) ?? branches[0];
}

function isScalar(schema: unknown): boolean {
  if (!isObject(schema)) return false;
  const isFixed = Object.hasOwn(schema, 'const') || Array.isArray(schema.enum);
  return (
    isFixed ||
    ['string', 'number', 'integer', 'boolean', 'null'].some((type) => type === schema.type)
  );
}

function typeOf(schema: Schema, mustStaySmall: boolean): unknown {
  const { type } = schema;
  if (Array.isArray(type)) return mustStaySmall && type.includes('null') ? 'null' : type[0];
  if (type !== undefined) return type;
  if (isObject(schema.properties) || itemsOf(schema.required).length > 0) return 'object';
  if (schema.items !== undefined || Array.isArray(schema.prefixItems)) return 'array';
  if (typeof schema.minimum === 'number' || typeof schema.maximum === 'number') return 'number';
  return 'string';
}

/** A schema may require a string of any length. Samples are not longer than this. */
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

function sampleString(schema: Schema, name: string): string {
  const { format } = schema;
  const known = typeof format === 'string' && Object.hasOwn(formatSamples, format);
  if (known) return formatSamples[format] ?? '';
  const min = Math.min(numberOr(schema.minLength, 0), charactersMax);
  const max = Math.min(numberOr(schema.maxLength, charactersMax), charactersMax);
  const characters = Array.from(`demo ${name}`.slice(0, charactersMax));
  while (characters.length < min) characters.push('.');
  return characters.slice(0, Math.max(0, max)).join('');
}

/** Returns the valid number nearest to 1. */
function sampleNumber(schema: Schema): number {
  const isInteger = schema.type === 'integer';
  const step = numberOr(schema.multipleOf, isInteger ? 1 : 0);
  const over = numberOr(schema.exclusiveMinimum, Number.NEGATIVE_INFINITY);
  const under = numberOr(schema.exclusiveMaximum, Number.POSITIVE_INFINITY);
  const min = numberOr(schema.minimum, Number.NEGATIVE_INFINITY);
  const max = numberOr(schema.maximum, Number.POSITIVE_INFINITY);
  // Keep a margin from exclusive bounds, however narrow the range is.
  const margin = Math.min(1, (Math.min(max, under) - Math.max(min, over)) / 2);
  const low = Math.max(min, isInteger ? Math.floor(over) + 1 : over + margin);
  const high = Math.min(max, isInteger ? Math.ceil(under) - 1 : under - margin);
  const nearest = Math.min(Math.max(1, low), high);
  if (step <= 0) return nearest;
  const above = Math.ceil(nearest / step) * step;
  return above <= high ? above : Math.floor(nearest / step) * step;
}

/** JSON numbers such as 1e999 are too large for a double and count as absent. */
function numberOr(value: unknown, otherwise: number): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
}
