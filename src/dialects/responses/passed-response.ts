/** What is noted of a response that passes through, and what is replaced in it. */
import { eventBytesMax, outputItemsMax } from '../../core/bounds.ts';
import {
  type Fields,
  fieldsOf,
  isObject,
  isText,
  itemsOf,
  lengthOf,
  objectsIn,
} from '../../core/json.ts';
import { pictureCharacters, totalTokens, type Usage } from '../../core/usage.ts';
import { answerId } from '../answer/answer-ids.ts';
import { NotedFacts } from '../answer/facts.ts';
import { renameModel } from '../answer/rename-model.ts';
import type { ReplyClosing, ReplyIdentity } from '../dialect.ts';
import { ItemPlaces } from './item-places.ts';
import { isClientCall } from './item-teller.ts';
import { mendItem } from './mend-output.ts';
import { finishReasonOf } from './reader.ts';
import type { Echo } from './response-object.ts';
import { readUsage, writeUsage } from './usage.ts';

/** Counts each character that a client receives once: an answer cut off is billed by these. */
export class PassedOutput {
  readonly facts = new NotedFacts();
  #hasCalls = false;
  /** The places of items whose content came in pieces. */
  readonly #inPieces = new Set<unknown>();
  readonly #done = new Set<unknown>();
  readonly #places = new ItemPlaces();

  get isFull(): boolean {
    return this.#done.size >= outputItemsMax || this.#inPieces.size >= outputItemsMax;
  }

  /** Returns the place of the item that an event is about. */
  take(type: string, event: Fields): unknown {
    const { item, delta } = event;
    const place = this.#places.of(event);
    if (isText(delta)) {
      this.facts.outputCharacters += delta.length;
      this.#inPieces.add(place);
    } else if (type === 'response.output_item.done' && isObject(item)) {
      this.#takeItem(place, item);
    }
    return place;
  }

  /** Takes a response that has ended: counts what is new in its output, and mends it. */
  end({ status, incomplete_details: details, output, usage }: Fields): void {
    for (const [at, item] of itemsOf(output).entries()) {
      if (!isObject(item)) continue;
      this.#takeItem(at, item);
      mendItem(item);
    }
    this.facts.usage = readUsage(usage);
    this.facts.finishReason = finishReasonOf(status, details, this.#hasCalls);
  }

  #takeItem(place: unknown, item: Fields): void {
    if (this.#done.has(place)) return;
    this.#done.add(place);
    if (isClientCall(item)) this.#hasCalls = true;
    this.facts.outputCharacters += lengthOf(item.name);
    if (!this.#inPieces.has(place)) this.facts.outputCharacters += charactersIn(item);
  }
}

/** The characters of a whole item, without its name. */
function charactersIn({ type, arguments: json, input, result, content, summary }: Fields): number {
  const isPicture = type === 'image_generation_call' && isText(result);
  let characters = lengthOf(json) + lengthOf(input);
  characters += isPicture ? pictureCharacters : lengthOf(result);
  for (const { text, refusal } of [content, summary].flatMap(objectsIn)) {
    characters += lengthOf(text) + lengthOf(refusal);
  }
  return characters;
}

/** Items from earlier events, for servers whose last event has an empty output. */
export class ToldItems {
  readonly #items = new Map<number, Fields>();
  #length = 0;

  /** Keeps no more than one event could hold; beyond that, nothing at all. */
  keep(place: unknown, item: Fields, length: number): void {
    this.#length += length;
    if (this.#length > eventBytesMax) this.#items.clear();
    else this.#items.set(typeof place === 'number' ? place : this.#items.size, item);
  }

  /** The output of an ended response: its own, or else the items from earlier events. */
  outputFor({ output }: Fields): unknown {
    if (Array.isArray(output) && output.length > 0) return output;
    const told = [...this.#items].sort(([one], [other]) => one - other);
    return told.map(([, item]) => item);
  }
}

/** The response as JSON with our id and model; `usage` is null before its end. */
export function signResponse(
  response: Fields,
  { id, model, created }: ReplyIdentity,
  { cacheKey }: Echo,
  usage: object | null,
): string {
  const { output, model: upstreamModel, usage: _, ...rest } = response;
  // The upstream was given another key in place of the client's.
  if ('prompt_cache_key' in rest) rest.prompt_cache_key = cacheKey;
  const known = { id: answerId('resp', id), object: 'response', model, created_at: created };
  const own = { ...rest, usage, ...known };
  // Fields beside the output may name the upstream's model.
  const named = renameModel(JSON.stringify(own), upstreamModel, model);
  return `${named.slice(0, -1)},"output":${JSON.stringify(objectsIn(output))}}`;
}

/** The upstream's counts, or the settled ones if it did not count; with the cost. */
export function countedUsage(
  { usage }: Fields,
  reported: Usage | undefined,
  { usage: settled, costCredits }: ReplyClosing,
): object {
  if (reported === undefined || !isObject(usage)) return writeUsage(settled, costCredits);
  // Codex takes an answer as broken if it has the details but not these counts in them.
  const { cacheReadTokens: cached_tokens, reasoningTokens: reasoning_tokens } = reported;
  return {
    ...usage,
    input_tokens_details: { cached_tokens, ...fieldsOf(usage.input_tokens_details) },
    output_tokens_details: { reasoning_tokens, ...fieldsOf(usage.output_tokens_details) },
    total_tokens: usage.total_tokens ?? totalTokens(reported),
    cost: costCredits,
  };
}
