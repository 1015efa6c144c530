import { eventBytesMax, outputItemsMax } from '../../../core/bounds.ts';
import {
  fieldsOf,
  isNonEmptyString,
  isObject,
  itemsOf,
  type JsonObject,
  lengthOf,
  objectsIn,
  textOf,
} from '../../../core/json.ts';
import { charactersPerImage, hasSameTotals, totalTokens, type Usage } from '../../../core/usage.ts';
import {
  costForClient,
  type ReadResult,
  type ReplyIdentity,
  type SettledUsage,
  type TransformedReply,
} from '../../dialect.ts';
import { RecordedMetrics } from '../../normalize/responses/answer-metrics.ts';
import { answerId, renameModel } from '../../normalize/responses/identity.ts';
import { removeCharges, removePrivateFields } from '../../normalize/responses/private-fields.ts';
import { isCutJson } from '../../normalize/responses/tool-arguments.ts';
import { finishReasonOf, parseReply } from '../answer-parser.ts';
import type { Echo } from '../client/response-object.ts';
import { plainMark } from '../reasoning-signature.ts';
import { argumentsOf, ItemIndexes, isClientCall } from '../upstream/output-items.ts';
import { readUsage, writeUsage } from '../usage.ts';

/** Returns the client's response, or the failure if the provider's isn't usable. */
export function readReply(
  text: string,
  identity: ReplyIdentity,
  echo: Echo,
): ReadResult<TransformedReply> {
  const parsed = parseReply(text);
  if (!parsed.ok) return parsed;
  const output = new OutputMeter(identity.provider);
  const response = { ...parsed.value, ...output.end(parsed.value) };
  const { metrics } = output;
  const write: TransformedReply['write'] = (settled) =>
    writeResponse(response, identity, echo, countedUsage(response, metrics.usage, settled));
  return { ok: true, value: { metrics, write } };
}

/** Records the metrics of a forwarded response. Counts each character once. */
export class OutputMeter {
  readonly metrics = new RecordedMetrics();
  readonly #provider: string | undefined;
  #hasCalls = false;
  #hasCutCall = false;
  /** The indexes of items whose content arrived in deltas. */
  readonly #streamed = new Set<unknown>();
  readonly #done = new Set<unknown>();
  readonly #indexes = new ItemIndexes();

  constructor(provider?: string) {
    this.#provider = provider;
  }

  get isFull(): boolean {
    return this.#done.size >= outputItemsMax || this.#streamed.size >= outputItemsMax;
  }

  /** Counts the content that an event adds. Returns the index of the event's item. */
  take(type: string, event: JsonObject): unknown {
    const { item, delta } = event;
    const index = this.#indexes.of(event);
    if (isNonEmptyString(delta)) {
      this.metrics.outputCharacters += delta.length;
      this.#streamed.add(index);
    } else if (type === 'response.output_item.done' && isObject(item)) {
      this.#takeItem(index, item);
    }
    return index;
  }

  /**
   * Counts the content of a finished response that earlier events didn't contain. Normalizes the
   * output in place. Returns the fields to change, because some servers report a response whose
   * last call was cut off as completed.
   */
  end({ status, incomplete_details: details, output, usage }: JsonObject): Partial<CutResponse> {
    for (const [index, item] of itemsOf(output).entries()) {
      if (!isObject(item)) continue;
      this.#takeItem(index, item);
      normalizeItem(item, this.#provider);
    }
    this.metrics.usage = readUsage(usage, output);
    const isCut = status === 'completed' && this.#hasCutCall;
    this.metrics.finishReason = isCut ? 'length' : finishReasonOf(status, details, this.#hasCalls);
    return isCut ? cutResponse : {};
  }

  #takeItem(index: unknown, item: JsonObject): void {
    if (this.#done.has(index)) return;
    this.#done.add(index);
    if (isClientCall(item)) this.#hasCalls = true;
    if (isCutCall(item)) this.#hasCutCall = true;
    this.metrics.outputCharacters += lengthOf(item.name);
    if (!this.#streamed.has(index)) this.metrics.outputCharacters += charactersIn(item);
  }
}

const cutResponse = {
  status: 'incomplete',
  incomplete_details: { reason: 'max_output_tokens' },
};
type CutResponse = typeof cutResponse;

/** True if the arguments of a complete call were cut off. */
function isCutCall({ type, arguments: json }: JsonObject): boolean {
  return type === 'function_call' && isCutJson(textOf(json));
}

/** Counts the characters of a complete item, without its name. */
function charactersIn({
  type,
  arguments: json,
  input,
  result,
  content,
  summary,
}: JsonObject): number {
  const isImage = type === 'image_generation_call' && isNonEmptyString(result);
  let characters = lengthOf(json) + lengthOf(input);
  characters += isImage ? charactersPerImage : lengthOf(result);
  for (const { text, refusal } of [content, summary].flatMap(objectsIn)) {
    characters += lengthOf(text) + lengthOf(refusal);
  }
  return characters;
}

/** Stores the items of earlier events, for servers whose last event has an empty output. */
export class EmittedItems {
  readonly #items = new Map<number, JsonObject>();
  #length = 0;

  /**
   * Stores an item. Once the items are larger than the limit of one event, discards all of them.
   */
  add(index: unknown, item: JsonObject, length: number): void {
    this.#length += length;
    if (this.#length > eventBytesMax) this.#items.clear();
    else this.#items.set(typeof index === 'number' ? index : this.#items.size, item);
  }

  /** Returns the response's own output or, if it's empty, the items of earlier events. */
  outputFor({ output }: JsonObject): unknown {
    if (Array.isArray(output) && output.length > 0) return output;
    const sorted = [...this.#items].sort(([a], [b]) => a - b);
    return sorted.map(([, item]) => item);
  }
}

/** Returns the response as JSON with the gateway's ID and model. `usage` is null until the end. */
export function writeResponse(
  response: JsonObject,
  { id, model, created }: ReplyIdentity,
  { cacheKey }: Echo,
  usage: object | null,
): string {
  const { output, model: upstreamModel, usage: _, provider: __, ...rest } = response;
  removePrivateFields(rest);
  // The upstream may have received a hash instead of the client's key.
  if ('prompt_cache_key' in rest) rest.prompt_cache_key = cacheKey;
  const identityFields = {
    id: answerId('resp', id),
    object: 'response',
    model,
    created_at: created,
  };
  const rewritten = { ...rest, usage, ...identityFields };
  // Fields other than the output may contain the upstream's model name.
  const named = renameModel(JSON.stringify(rewritten), upstreamModel, model);
  return `${named.slice(0, -1)},"output":${JSON.stringify(objectsIn(output))}}`;
}

/**
 * Returns the usage of the upstream with the cost to the client instead of its charges, or the
 * settled usage if it isn't what the upstream reported.
 */
export function countedUsage(
  { usage }: JsonObject,
  reported: Usage | undefined,
  settled: SettledUsage,
): object {
  const cost = costForClient(settled);
  if (!reported || !isObject(usage) || !hasSameTotals(reported, settled.usage))
    return writeUsage(settled.usage, cost);
  removeCharges(usage);
  // Codex rejects an answer whose details lack these counts.
  const { cacheReadTokens: cached_tokens, reasoningTokens: reasoning_tokens } = reported;
  return {
    ...usage,
    input_tokens_details: { cached_tokens, ...fieldsOf(usage.input_tokens_details) },
    output_tokens_details: { reasoning_tokens, ...fieldsOf(usage.output_tokens_details) },
    total_tokens: usage.total_tokens ?? totalTokens(reported),
    cost,
  };
}

// The functions below add fields that self-hosted servers leave out of the output. Clients assume
// that these fields exist, and strict clients drop items without them.

/**
 * Normalizes an event in place, except the ID of its item. `index` is that item's index. Returns
 * true if anything changed.
 */
export function normalizeEvent(
  type: string,
  event: JsonObject,
  index: unknown,
  provider: string | undefined,
): boolean {
  const hasNewIndex = setIndexes(type, event, index);
  return completeEvent(type, event, provider) || hasNewIndex;
}

function normalizeItem(item: JsonObject, provider: string | undefined): void {
  addItemId(item);
  completeItem(item, provider);
}

/** Adds the `id` that llama.cpp leaves out of function calls. Returns true if it was missing. */
export function addItemId(item: unknown): boolean {
  if (!isObject(item) || item.type !== 'function_call' || isNonEmptyString(item.id)) return false;
  if (!isNonEmptyString(item.call_id)) return false;
  // In earlier versions of llama.cpp, `item_id` and `call_id` both start with `fc_`.
  item.id = item.call_id.startsWith('fc_') ? item.call_id : `fc_${item.call_id}`;
  return true;
}

const aboutParts = /^response\.(?:content_part|output_text|refusal|reasoning_text)\./;
const aboutSummaries = /^response\.reasoning_summary_/;

/** Adds the missing indexes of the event's item and part. */
function setIndexes(type: string, event: JsonObject, index: unknown): boolean {
  const { item, item_id: id, delta } = event;
  const isOfItem = isObject(item) || isNonEmptyString(id) || isNonEmptyString(delta);
  let changed = isOfItem && setIndex(event, 'output_index', index);
  if (aboutParts.test(type) && setIndex(event, 'content_index', 0)) changed = true;
  if (aboutSummaries.test(type) && setIndex(event, 'summary_index', 0)) changed = true;
  return changed;
}

function setIndex(event: JsonObject, name: string, value: unknown): boolean {
  if (typeof event[name] === 'number') return false;
  event[name] = value;
  return true;
}

function completeEvent(type: string, event: JsonObject, provider: string | undefined): boolean {
  if (type === 'response.function_call_arguments.done') return completeArguments(event);
  if (!isObject(event.item)) return false;
  if (type === 'response.output_item.added') return completeAdded(event.item);
  return type === 'response.output_item.done' && completeItem(event.item, provider);
}

/**
 * Lists that a new item must have, because OpenAI's SDK appends parts to them. Codex requires both.
 */
const listsOfItems: ReadonlyMap<unknown, string> = new Map([
  ['message', 'content'],
  ['reasoning', 'summary'],
]);

function completeAdded(item: JsonObject): boolean {
  const list = listsOfItems.get(item.type);
  if (list === undefined || Array.isArray(item[list])) return false;
  item[list] = [];
  return true;
}

function completeItem(item: JsonObject, provider: string | undefined): boolean {
  if (item.type === 'reasoning') return markPlainReasoning(item, provider);
  if (item.type !== 'function_call' || item.status === 'incomplete') return false;
  if (!isCutCall(item)) return completeArguments(item);
  item.status = 'incomplete';
  return true;
}

/** Marks plain-text reasoning, so that it is returned only to its provider. */
function markPlainReasoning(item: JsonObject, provider: string | undefined): boolean {
  const mark = plainMark(item, provider);
  if (mark === undefined) return false;
  item.encrypted_content = mark;
  return true;
}

function completeArguments(fields: JsonObject): boolean {
  if (isNonEmptyString(fields.arguments)) return false;
  fields.arguments = argumentsOf(fields);
  return true;
}
