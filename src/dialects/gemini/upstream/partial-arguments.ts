/**
 * Joins tool-call arguments that Vertex AI streams as fragments. Each fragment has the path of its
 * value. The arguments are emitted once they are complete, because an incomplete object isn't valid
 * JSON.
 */
import { eventBytesMax, jsonDepthMax } from '../../../core/bounds.ts';
import { type JsonObject, objectsIn } from '../../../core/json.ts';

type Step = string | number;
/** Objects have no prototype, so that names such as `__proto__` aren't special. */
type Node = { [name: string]: unknown } | unknown[];

const stepPattern = /\.([^.[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/y;

/** Returns the steps of a path such as `$.places[0].name`; undefined for anything else. */
function readPath(path: unknown): readonly Step[] | undefined {
  if (typeof path !== 'string' || !path.startsWith('$')) return undefined;
  const steps: Step[] = [];
  stepPattern.lastIndex = 1;
  while (stepPattern.lastIndex < path.length) {
    const [match, name, index, single, double] = stepPattern.exec(path) ?? [];
    if (match === undefined || steps.length === jsonDepthMax) return undefined;
    const quoted = (single ?? double)?.replace(/\\(.)/g, '$1');
    steps.push(index === undefined ? (name ?? quoted ?? '') : Number(index));
  }
  return steps.length > 0 ? steps : undefined;
}

function readValue(fragment: JsonObject): unknown {
  const { stringValue, numberValue, boolValue } = fragment;
  if (typeof stringValue === 'string') return stringValue;
  if (typeof numberValue === 'number') return numberValue;
  if (typeof boolValue === 'boolean') return boolValue;
  return 'nullValue' in fragment ? null : undefined;
}

const newObject = (): Node => Object.create(null) as Node;

function childOf(node: Node, step: Step): unknown {
  if (Array.isArray(node)) return typeof step === 'number' ? node[step] : undefined;
  return node[step];
}

/**
 * Sets a child of a node. Returns false for an index beyond the end of a list. A list grows by one
 * item at a time, so no index can make it huge.
 */
function setChild(node: Node, step: Step, value: unknown): boolean {
  if (!Array.isArray(node)) {
    node[step] = value;
    return true;
  }
  if (typeof step !== 'number' || step > node.length) return false;
  node[step] = value;
  return true;
}

export class PartialArguments {
  readonly #root: Node = newObject();
  #size = 0;

  /**
   * True if the fragments exceed the maximum size of an event, which the complete arguments would
   * have to fit into.
   */
  get isTooLarge(): boolean {
    return this.#size > eventBytesMax;
  }

  /** Adds the `partialArgs` of one part. Fragments without a valid path and value are ignored. */
  add(fragments: unknown): void {
    for (const fragment of objectsIn(fragments)) {
      const path = readPath(fragment.jsonPath);
      const value = readValue(fragment);
      if (path === undefined || value === undefined) continue;
      this.#size +=
        String(fragment.jsonPath).length + (typeof value === 'string' ? value.length : 8);
      if (!this.isTooLarge) this.#put(path, value);
    }
  }

  toJson(): string {
    return JSON.stringify(this.#root);
  }

  #put(path: readonly Step[], value: unknown): void {
    let node = this.#root;
    for (const [index, step] of path.entries()) {
      const known = childOf(node, step);
      if (index === path.length - 1) {
        const isContinued = typeof known === 'string' && typeof value === 'string';
        setChild(node, step, isContinued ? known + value : value);
        return;
      }
      if (typeof known === 'object' && known !== null) {
        node = known as Node;
        continue;
      }
      const child = typeof path[index + 1] === 'number' ? [] : newObject();
      if (!setChild(node, step, child)) return;
      node = child;
    }
  }
}
