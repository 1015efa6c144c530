/**
 * Makes a value that satisfies a JSON schema, always the same value. It knows the keywords that are
 * common in requests to models, not `pattern`, `not` and conditions.
 */
import { fieldsOf, isObject, itemsOf } from '../core/json.ts';
import { sampleNumber, sampleString } from './scalar-sample.ts';

export type Schema = Readonly<Record<string, unknown>>;

/**
 * Beyond `small`, the sample only grows where the schema demands it, so recursive schemas come to
 * an end. Beyond `hard` it ends even if it does not fit: a schema can demand billions of values.
 */
const depthBounds = { small: 8, hard: 32 };
const valueBounds = { small: 1_000, hard: 2_000 };
const itemsMax = 32;
/** The most references and branches followed for one value: a reference may lead back to itself. */
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

  /** `name` is the name of the value's property; sample texts mention it. */
  sample(given: unknown, name: string, depth: number): unknown {
    this.#values += 1;
    if (depth > depthBounds.hard || this.#values > valueBounds.hard) return null;
    const isSmall = depth >= depthBounds.small || this.#values >= valueBounds.small;
    const schema = this.#resolve(fieldsOf(given), isSmall);
    if (Object.hasOwn(schema, 'const')) return schema.const;
    if (Array.isArray(schema.enum) && schema.enum.length > 0) return schema.enum[0];
    switch (typeOf(schema, isSmall)) {
      case 'object':
        return this.#sampleObject(schema, depth);
      case 'array':
        return this.#sampleArray(schema, name, depth, isSmall);
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
    // If no property is required, an empty object would fit but show nothing.
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

  #sampleArray(schema: Schema, name: string, depth: number, isSmall: boolean): unknown[] {
    const prefix = itemsOf(schema.prefixItems);
    const min = typeof schema.minItems === 'number' ? schema.minItems : 0;
    const max = typeof schema.maxItems === 'number' ? schema.maxItems : itemsMax;
    const wanted = isSmall ? min : Math.max(min, prefix.length, 1);
    const length = Math.max(0, Math.min(Math.ceil(wanted), Math.floor(max), itemsMax));
    return Array.from({ length }, (_, index) =>
      this.sample(index < prefix.length ? prefix[index] : schema.items, name, depth + 1),
    );
  }

  /** Follows references and picks branches until what is left describes a value directly. */
  #resolve(given: Schema, isSmall: boolean): Schema {
    let schema = given;
    for (let hop = 0; hop < hopsMax; hop += 1) {
      const { $ref, anyOf, oneOf, allOf, ...rest } = schema;
      if (typeof $ref === 'string') {
        schema = merge({ ...rest, anyOf, oneOf, allOf }, this.#lookUp($ref));
      } else if (Array.isArray(allOf)) {
        schema = [{ ...rest, anyOf, oneOf }, ...allOf].reduce<Schema>(merge, {});
      } else if (Array.isArray(anyOf)) {
        schema = merge({ ...rest, oneOf }, pickBranch(anyOf, isSmall));
      } else if (Array.isArray(oneOf)) {
        schema = merge(rest, pickBranch(oneOf, isSmall));
      } else {
        return rest;
      }
    }
    return {};
  }

  /** A JSON pointer into the schema itself, such as `#/$defs/Person`. */
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

/** The first branch, unless the sample has to end soon: then one that cannot grow. */
function pickBranch(branches: readonly unknown[], isSmall: boolean): unknown {
  return (isSmall ? branches.find(isScalar) : undefined) ?? branches[0];
}

function isScalar(schema: unknown): boolean {
  if (!isObject(schema)) return false;
  const isFixed = Object.hasOwn(schema, 'const') || Array.isArray(schema.enum);
  return (
    isFixed ||
    ['string', 'number', 'integer', 'boolean', 'null'].some((type) => type === schema.type)
  );
}

function typeOf(schema: Schema, isSmall: boolean): unknown {
  const { type } = schema;
  if (Array.isArray(type)) return isSmall && type.includes('null') ? 'null' : type[0];
  if (type !== undefined) return type;
  if (isObject(schema.properties) || itemsOf(schema.required).length > 0) return 'object';
  if (schema.items !== undefined || Array.isArray(schema.prefixItems)) return 'array';
  if (typeof schema.minimum === 'number' || typeof schema.maximum === 'number') return 'number';
  return 'string';
}
