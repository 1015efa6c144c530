import { eventBytesMax, outputItemsMax } from '../../../core/bounds.ts';
import {
  type Fields,
  fieldsOf,
  isObject,
  isText,
  itemsOf,
  lengthOf,
  objectsIn,
} from '../../../core/json.ts';
import { charactersPerImage, totalTokens, type Usage } from '../../../core/usage.ts';
import type { ReadResult, ReplyIdentity, SettledUsage, TransformedReply } from '../../dialect.ts';
import { invalidJsonAnswer } from '../../failure.ts';
import { parseExact } from '../../normalize/exact-json.ts';
import { RecordedMetrics } from '../../normalize/responses/answer-metrics.ts';
import { answerId, renameModel } from '../../normalize/responses/identity.ts';
import type { Echo } from '../client/response-object.ts';
import { argumentsOf, ItemIndexes, isClientCall } from '../upstream/output-items.ts';
import { failureOf, finishReasonOf } from '../upstream/reader.ts';
import { readUsage, writeUsage } from '../usage.ts';

/** A whole response of an upstream on its way to a Responses client. */

export function readReply(
  text: string,
  identity: ReplyIdentity,
  echo: Echo,
): ReadResult<TransformedReply> {
  const response = parseExact(text);
  if (!isObject(response)) return { ok: false, failure: invalidJsonAnswer(text) };
  const failure = failureOf(response, response.status);
  if (failure) return { ok: false, failure };
  const output = new PassedOutput();
  output.end(response);
  const { metrics } = output;
  const write: TransformedReply['write'] = (settled) =>
    signResponse(response, identity, echo, countedUsage(response, metrics.usage, settled));
  return { ok: true, value: { metrics, write } };
}

/** What is noted of a response that passes through, and what is replaced in it. */

/** Counts each character that a client receives once: an answer cut off is billed by these. */
export class PassedOutput {
  readonly metrics = new RecordedMetrics();
  #hasCalls = false;
  /** The places of items whose content came in pieces. */
  readonly #inPieces = new Set<unknown>();
  readonly #done = new Set<unknown>();
  readonly #indexes = new ItemIndexes();

  get isFull(): boolean {
    return this.#done.size >= outputItemsMax || this.#inPieces.size >= outputItemsMax;
  }

  /** Returns the place of the item that an event is about. */
  take(type: string, event: Fields): unknown {
    const { item, delta } = event;
    const index = this.#indexes.of(event);
    if (isText(delta)) {
      this.metrics.outputCharacters += delta.length;
      this.#inPieces.add(index);
    } else if (type === 'response.output_item.done' && isObject(item)) {
      this.#takeItem(index, item);
    }
    return index;
  }

  /** Takes a response that has ended: counts what is new in its output, and mends it. */
  end({ status, incomplete_details: details, output, usage }: Fields): void {
    for (const [at, item] of itemsOf(output).entries()) {
      if (!isObject(item)) continue;
      this.#takeItem(at, item);
      normalizeItem(item);
    }
    this.metrics.usage = readUsage(usage);
    this.metrics.finishReason = finishReasonOf(status, details, this.#hasCalls);
  }

  #takeItem(index: unknown, item: Fields): void {
    if (this.#done.has(index)) return;
    this.#done.add(index);
    if (isClientCall(item)) this.#hasCalls = true;
    this.metrics.outputCharacters += lengthOf(item.name);
    if (!this.#inPieces.has(index)) this.metrics.outputCharacters += charactersIn(item);
  }
}

/** The characters of a whole item, without its name. */
function charactersIn({ type, arguments: json, input, result, content, summary }: Fields): number {
  const isImage = type === 'image_generation_call' && isText(result);
  let characters = lengthOf(json) + lengthOf(input);
  characters += isImage ? charactersPerImage : lengthOf(result);
  for (const { text, refusal } of [content, summary].flatMap(objectsIn)) {
    characters += lengthOf(text) + lengthOf(refusal);
  }
  return characters;
}

/** Items from earlier events, for servers whose last event has an empty output. */
export class EmittedItems {
  readonly #items = new Map<number, Fields>();
  #length = 0;

  /** Keeps no more than one event could hold; beyond that, nothing at all. */
  add(index: unknown, item: Fields, length: number): void {
    this.#length += length;
    if (this.#length > eventBytesMax) this.#items.clear();
    else this.#items.set(typeof index === 'number' ? index : this.#items.size, item);
  }

  /** The output of an ended response: its own, or else the items from earlier events. */
  outputFor({ output }: Fields): unknown {
    if (Array.isArray(output) && output.length > 0) return output;
    const sorted = [...this.#items].sort(([one], [other]) => one - other);
    return sorted.map(([, item]) => item);
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
  { usage: settled, costCredits }: SettledUsage,
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

/**
 * Adds what self-hosted servers leave out of an output: clients read such fields without checking,
 * and strict clients drop items without them. Changes in place; a boolean says if any was needed.
 */

/** Mends an event, but not the id of its item; `place` is the place of that item. */
export function normalizeEvent(type: string, event: Fields, index: unknown): boolean {
  const hasNewIndex = setIndexes(type, event, index);
  return completeEvent(type, event) || hasNewIndex;
}

/** Mends a whole item. */
function normalizeItem(item: Fields): void {
  nameItem(item);
  completeItem(item);
}

/** llama.cpp gives a call only a `call_id`; clients want the item to have an `id`, too. */
export function nameItem(item: unknown): boolean {
  if (!isObject(item) || item.type !== 'function_call' || isText(item.id)) return false;
  if (!isText(item.call_id)) return false;
  // In earlier versions of llama.cpp the `item_id` of events and the `call_id` begin with `fc_`.
  item.id = item.call_id.startsWith('fc_') ? item.call_id : `fc_${item.call_id}`;
  return true;
}

const aboutParts = /^response\.(?:content_part|output_text|refusal|reasoning_text)\./;
const aboutSummaries = /^response\.reasoning_summary_/;

/** Sets the indexes of the item and the part that an event is about. */
function setIndexes(type: string, event: Fields, index: unknown): boolean {
  const { item, item_id: id, delta } = event;
  const isOfItem = isObject(item) || isText(id) || isText(delta);
  let changed = isOfItem && setIndex(event, 'output_index', index);
  if (aboutParts.test(type) && setIndex(event, 'content_index', 0)) changed = true;
  if (aboutSummaries.test(type) && setIndex(event, 'summary_index', 0)) changed = true;
  return changed;
}

function setIndex(event: Fields, name: string, value: unknown): boolean {
  if (typeof event[name] === 'number') return false;
  event[name] = value;
  return true;
}

function completeEvent(type: string, event: Fields): boolean {
  if (type === 'response.function_call_arguments.done') return completeArguments(event);
  if (!isObject(event.item)) return false;
  if (type === 'response.output_item.added') return completeBegun(event.item);
  return type === 'response.output_item.done' && completeItem(event.item);
}

/** Lists to which OpenAI's SDK adds parts, so an item has to begin with them; Codex wants both. */
const listsOfItems: ReadonlyMap<unknown, string> = new Map([
  ['message', 'content'],
  ['reasoning', 'summary'],
]);

function completeBegun(item: Fields): boolean {
  const list = listsOfItems.get(item.type);
  if (list === undefined || Array.isArray(item[list])) return false;
  item[list] = [];
  return true;
}

function completeItem(item: Fields): boolean {
  const isFinishedCall = item.type === 'function_call' && item.status !== 'incomplete';
  return isFinishedCall && completeArguments(item);
}

function completeArguments(fields: Fields): boolean {
  if (isText(fields.arguments)) return false;
  fields.arguments = argumentsOf(fields);
  return true;
}
