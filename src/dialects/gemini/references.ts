/**
 * Schemas without references. Gemini finds only what stands in `$defs`, and refuses most words
 * beside a reference; schemas that programs write for tools have both.
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

/** All that Gemini takes beside a reference, but for `$defs` and the like. */
const besideReference = new Set(['description', 'default']);

/** Characters put in the place of references, for one request: a short name may stand for many. */
const copiedLengthMax = 300_000;

export class References {
  #copiedLength = 0;
  /** There was something that cannot be put in place. */
  #isStuck = false;

  /** What refers to itself, to nothing, or to more than anybody needs keeps its references. */
  resolveIn(root: Schema): Schema {
    this.#isStuck = false;
    const { $defs: _, definitions: __, ...rest } = root;
    const resolved = this.#resolve(rest, root, [], 0);
    return this.#isStuck ? bare(root) : resolved;
  }

  /** `open` are the references that led here. */
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
    // The words beside a reference are about this use of it.
    return { ...found, ...own };
  }
}

/** With its references, and nothing beside them that Gemini refuses. */
function bare(schema: Schema): Schema {
  const isReference = typeof schema.$ref === 'string';
  const mayStay = (key: string) => key.startsWith('$') || besideReference.has(key);
  const kept = Object.entries(schema).filter(([key]) => !isReference || mayStay(key));
  return changeInside(Object.fromEntries(kept), bare);
}

/** The same schema with those inside of it changed. Other values are data, whatever they hold. */
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

/** What `#/$defs/City` refers to; undefined when it is nothing, or somewhere else. */
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
