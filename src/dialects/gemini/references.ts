/**
 * Schemas without references. Gemini resolves only references into `$defs`, and refuses most keys
 * beside a reference; generated schemas of tools often break both rules.
 */
import { jsonDepthMax } from '../../core/bounds.ts';
import { type Fields, isObject } from '../../core/json.ts';
import { schemasByName } from '../ask/tools/newer-schema.ts';

type Schema = Readonly<Fields>;

/** Keys whose value is a schema, or a list of them. */
const plain = new Set([
  ...['anyOf', 'oneOf', 'allOf', 'not', 'if', 'then', 'else', 'items', 'prefixItems', 'contains'],
  ...['propertyNames', 'additionalProperties', 'unevaluatedItems', 'unevaluatedProperties'],
]);

/** The keys that Gemini takes beside a reference, apart from those that begin with `$`. */
const besideReference = new Set(['description', 'default']);

/** Characters that may replace references in one request, as a short one may stand for many. */
const copiedLengthMax = 300_000;

export class References {
  #copiedLength = 0;
  /** A reference was found that cannot be replaced. */
  #isStuck = false;

  /** A schema keeps its references if one leads to itself, to nothing, or to too long a schema. */
  resolveIn(root: Schema): Schema {
    this.#isStuck = false;
    const { $defs: _, definitions: __, ...rest } = root;
    const resolved = this.#resolve(rest, root, [], 0);
    return this.#isStuck ? bare(root) : resolved;
  }

  /** `open` lists the references that led to this schema. */
  #resolve(schema: Schema, root: Schema, open: readonly string[], depth: number): Schema {
    if (depth > jsonDepthMax) this.#isStuck = true;
    if (this.#isStuck) return schema;
    const { $ref: reference, ...rest } = schema;
    const own = changeInside(rest, (inner) => this.#resolve(inner, root, open, depth + 1));
    if (typeof reference !== 'string') return own;
    const target = open.includes(reference) ? undefined : find(root, reference);
    if (target !== undefined) this.#copiedLength += JSON.stringify(target).length;
    if (target === undefined || this.#copiedLength > copiedLengthMax) {
      this.#isStuck = true;
      return schema;
    }
    const found = this.#resolve(target, root, [...open, reference], depth + 1);
    // Keys beside a reference are about this use of it, and so come last.
    return { ...found, ...own };
  }
}

/** The schema with its references, but without the keys that Gemini refuses beside them. */
function bare(schema: Schema): Schema {
  const isReference = typeof schema.$ref === 'string';
  const mayStay = (key: string) => key.startsWith('$') || besideReference.has(key);
  const kept = Object.entries(schema).filter(([key]) => !isReference || mayStay(key));
  return changeInside(Object.fromEntries(kept), bare);
}

/** The schema with all schemas inside it changed. Values of other keys are data, never schemas. */
function changeInside(schema: Schema, change: (inner: Schema) => Schema): Schema {
  const changeOne = (value: unknown) => (isObject(value) ? change(value) : value);
  const fields = Object.entries(schema).map(([key, value]): [string, unknown] => {
    if (schemasByName.has(key) && isObject(value)) {
      const inner = Object.entries(value).map(([name, one]) => [name, changeOne(one)]);
      return [key, Object.fromEntries(inner)];
    }
    if (!plain.has(key)) return [key, value];
    return [key, Array.isArray(value) ? value.map(changeOne) : changeOne(value)];
  });
  return Object.fromEntries(fields);
}

/** What a reference such as `#/$defs/City` leads to; undefined if that is not in this schema. */
function find(root: Schema, reference: string): Schema | undefined {
  if (!reference.startsWith('#/')) return undefined;
  let at: unknown = root;
  for (const step of reference.slice(2).split('/')) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
    const isThere = typeof at === 'object' && at !== null && Object.hasOwn(at, name);
    at = isThere ? (at as Schema)[name] : undefined;
  }
  return isObject(at) ? at : undefined;
}
