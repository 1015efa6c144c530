/** What is read on the side of a response that passes through, and what is exchanged in it. */
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
import { renameModel } from '../answer/rename-model.ts';
import type { ReplyClosing, ReplyFacts, ReplyIdentity } from '../dialect.ts';
import { ItemPlaces } from './item-places.ts';
import { argumentsOf } from './item-teller.ts';
import { finishReasonOf } from './reader.ts';
import type { Echo } from './response-object.ts';
import { readUsage, writeUsage } from './usage.ts';

/** Characters that a client receives, each counted once: what a cut answer is billed by. */
export class PassedOutput {
  characters = 0;
  hasCalls = false;
  /** Places of items of which pieces came. */
  readonly #inPieces = new Set<unknown>();
  readonly #done = new Set<unknown>();
  readonly #places = new ItemPlaces();

  get isFull(): boolean {
    return this.#done.size >= outputItemsMax || this.#inPieces.size >= outputItemsMax;
  }

  /** Answers the place of the item that an event is about. */
  take(type: string, event: Fields): unknown {
    const { item, delta } = event;
    const place = this.#places.of(event);
    if (isText(delta)) {
      this.characters += delta.length;
      this.#inPieces.add(place);
    } else if (type === 'response.output_item.done' && isObject(item)) {
      this.takeItem(place, item);
    }
    return place;
  }

  takeItem(place: unknown, item: Fields): void {
    if (this.#done.has(place)) return;
    this.#done.add(place);
    if (item.type === 'function_call' || item.type === 'custom_tool_call') this.hasCalls = true;
    this.characters += lengthOf(item.name);
    if (this.#inPieces.has(place)) return;
    this.characters += lengthOf(item.arguments) + lengthOf(item.input);
    const isPicture = item.type === 'image_generation_call' && isText(item.result);
    this.characters += isPicture ? pictureCharacters : lengthOf(item.result);
    for (const part of [item.content, item.summary].flatMap(objectsIn)) {
      this.characters += lengthOf(part.text) + lengthOf(part.refusal);
    }
  }
}

/** Items as they were told, for servers whose last event has an empty output: clients read it. */
export class ToldItems {
  readonly #items = new Map<number, Fields>();
  #length = 0;

  /** Kept are no more than one event could hold. */
  keep(place: unknown, item: Fields, length: number): void {
    this.#length += length;
    if (this.#length > eventBytesMax) this.#items.clear();
    else this.#items.set(typeof place === 'number' ? place : this.#items.size, item);
  }

  /** The output of an ended response, its own or what was told of it. */
  outputFor({ output }: Fields): unknown {
    if (Array.isArray(output) && output.length > 0) return output;
    const told = [...this.#items].sort(([one], [other]) => one - other);
    return told.map(([, item]) => item);
  }
}

/** llama.cpp knows a call by what its result will name; clients want an id of the item's own. */
export function nameItem(item: unknown): boolean {
  if (!isObject(item) || item.type !== 'function_call' || isText(item.id)) return false;
  if (!isText(item.call_id)) return false;
  item.id = `fc_${item.call_id}`;
  return true;
}

const aboutParts = /^response\.(?:content_part|output_text|refusal|reasoning_text)\./;
const aboutSummaries = /^response\.reasoning_summary_/;

/** Servers of one's own leave out which item and part they tell of; strict clients drop that. */
export function placeEvent(type: string, event: Fields, place: unknown): boolean {
  const { item, item_id: id, delta } = event;
  const isOfItem = isObject(item) || isText(id) || isText(delta);
  let changed = isOfItem && number(event, 'output_index', place);
  if (aboutParts.test(type) && number(event, 'content_index', 0)) changed = true;
  if (aboutSummaries.test(type) && number(event, 'summary_index', 0)) changed = true;
  return changed;
}

function number(event: Fields, name: string, value: unknown): boolean {
  if (typeof event[name] === 'number') return false;
  event[name] = value;
  return true;
}

/** Gives an item what clients read of it without asking whether it is there; true if it had not. */
export function completeEvent(type: string, event: Fields): boolean {
  if (type === 'response.function_call_arguments.done') return completeArguments(event);
  if (!isObject(event.item)) return false;
  if (type === 'response.output_item.added') return completeBegun(event.item);
  return type === 'response.output_item.done' && completeItem(event.item);
}

/** OpenAI's SDK adds parts to the content of a message that has begun; Codex wants both lists. */
const listsOfItems = new Map([
  ['message', 'content'],
  ['reasoning', 'summary'],
]);

function completeBegun(item: Fields): boolean {
  const list = listsOfItems.get(String(item.type));
  if (list === undefined || Array.isArray(item[list])) return false;
  item[list] = [];
  return true;
}

function completeItem(item: Fields): boolean {
  const { type, status } = item;
  return type === 'function_call' && status !== 'incomplete' && completeArguments(item);
}

function completeArguments(holder: Fields): boolean {
  if (isText(holder.arguments)) return false;
  holder.arguments = argumentsOf(holder);
  return true;
}

/** Of a response that has ended; the output is heard to its end on the way, and mended. */
export function passedFacts(response: Fields, output: PassedOutput): ReplyFacts {
  const { status, incomplete_details: details } = response;
  const items = itemsOf(response.output);
  for (const [at, item] of items.entries()) {
    if (!isObject(item)) continue;
    output.takeItem(at, item);
    nameItem(item);
    completeItem(item);
  }
  const finishReason = finishReasonOf(status, details, output.hasCalls);
  const { characters: outputCharacters } = output;
  return { usage: readUsage(response.usage), finishReason, outputCharacters, failure: undefined };
}

/** The response as JSON under our names, with what it cost; `closing` is null before its end. */
export function signResponse(
  response: Fields,
  { id, model, created }: ReplyIdentity,
  reported: Usage | undefined,
  closing: ReplyClosing | null,
  { cacheKey }: Echo,
): string {
  const { output, model: upstreamModel, usage, ...rest } = response;
  // The upstream knows it by another name.
  if ('prompt_cache_key' in rest) rest.prompt_cache_key = cacheKey;
  const counted = closing && countedUsage(usage, reported, closing);
  const own = { ...rest, usage: counted, id: answerId('resp', id), model, created_at: created };
  // Fields beside the output may name the model that answered.
  const named = renameModel(JSON.stringify(own), upstreamModel, model);
  return `${named.slice(0, -1)},"output":${JSON.stringify(output ?? [])}}`;
}

/** As the upstream counted, or as it was settled where it did not. */
function countedUsage(usage: unknown, reported: Usage | undefined, closing: ReplyClosing): object {
  const { usage: settled, costCredits } = closing;
  if (reported === undefined || !isObject(usage)) return writeUsage(settled, costCredits);
  // Codex takes an answer for a broken one whose details are there, but not with these counts.
  const { cacheReadTokens: cached_tokens, reasoningTokens: reasoning_tokens } = reported;
  return {
    ...usage,
    input_tokens_details: { cached_tokens, ...fieldsOf(usage.input_tokens_details) },
    output_tokens_details: { reasoning_tokens, ...fieldsOf(usage.output_tokens_details) },
    total_tokens: usage.total_tokens ?? totalTokens(reported),
    cost: costCredits,
  };
}
