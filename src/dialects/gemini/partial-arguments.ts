/**
 * Arguments of a call that come in pieces, each with the path of its place: Vertex streams them so.
 * They are put together and told whole, because half an object is no JSON.
 */
import { eventBytesMax, jsonDepthMax } from '../../core/bounds.ts';
import { type Fields, objectsIn } from '../../core/json.ts';

type Step = string | number;
/** Without a prototype, so that no name is special. */
type Node = { [name: string]: unknown } | unknown[];

const stepPattern = /\.([^.[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/y;

/** The steps of `$.places[0].name`; undefined when it is no such path. */
function readPath(path: unknown): readonly Step[] | undefined {
  if (typeof path !== 'string' || !path.startsWith('$')) return undefined;
  const steps: Step[] = [];
  stepPattern.lastIndex = 1;
  while (stepPattern.lastIndex < path.length) {
    const [whole, name, index, single, double] = stepPattern.exec(path) ?? [];
    if (whole === undefined || steps.length === jsonDepthMax) return undefined;
    const quoted = (single ?? double)?.replace(/\\(.)/g, '$1');
    steps.push(index === undefined ? (name ?? quoted ?? '') : Number(index));
  }
  return steps.length > 0 ? steps : undefined;
}

function readValue(piece: Fields): unknown {
  const { stringValue, numberValue, boolValue } = piece;
  if (typeof stringValue === 'string') return stringValue;
  if (typeof numberValue === 'number') return numberValue;
  if (typeof boolValue === 'boolean') return boolValue;
  return 'nullValue' in piece ? null : undefined;
}

const newObject = (): Node => Object.create(null) as Node;

function childOf(node: Node, step: Step): unknown {
  if (Array.isArray(node)) return typeof step === 'number' ? node[step] : undefined;
  return node[step];
}

/** False when there is no such place: lists grow by one, so that no index can make them huge. */
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

  /** In one piece they would have had to fit into one event. */
  get isTooLarge(): boolean {
    return this.#size > eventBytesMax;
  }

  /** Takes in the `partialArgs` of one part; pieces that fit nowhere are passed over. */
  add(pieces: unknown): void {
    for (const piece of objectsIn(pieces)) {
      const path = readPath(piece.jsonPath);
      const value = readValue(piece);
      if (path === undefined || value === undefined) continue;
      this.#size += String(piece.jsonPath).length + (typeof value === 'string' ? value.length : 8);
      if (!this.isTooLarge) this.#put(path, value);
    }
  }

  toJson(): string {
    return JSON.stringify(this.#root);
  }

  #put(path: readonly Step[], value: unknown): void {
    let node = this.#root;
    for (const [at, step] of path.entries()) {
      const known = childOf(node, step);
      if (at === path.length - 1) {
        const isMore = typeof known === 'string' && typeof value === 'string';
        setChild(node, step, isMore ? known + value : value);
        return;
      }
      if (typeof known === 'object' && known !== null) {
        node = known as Node;
        continue;
      }
      const made = typeof path[at + 1] === 'number' ? [] : newObject();
      if (!setChild(node, step, made)) return;
      node = made;
    }
  }
}
