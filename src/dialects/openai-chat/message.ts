/** Normalizes the fields that streamed deltas and the messages of non-streaming responses share. */
import { citationsMax } from '../../core/bounds.ts';
import {
  fieldsOf,
  isNonEmptyString,
  isObject,
  itemsOf,
  type JsonObject,
  lengthOf,
  objectsIn,
  textOf,
} from '../../core/json.ts';
import { charactersPerImage } from '../../core/usage.ts';
import { removePrivateFields } from '../normalize/responses/private-fields.ts';
import { annotationOf } from './client/reply-writer.ts';
import { completeToolCalls, isCutCall, normalizeToolCalls } from './tool-calls.ts';

/** Maps other servers' finish reasons to OpenAI's. Unlisted reasons are forwarded unchanged. */
const finishReasons: ReadonlyMap<string, string> = new Map([
  // OpenAI's own reasons are listed because some servers write them in capitals.
  ['stop', 'stop'],
  ['length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['content_filter', 'content_filter'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['pause_turn', 'stop'],
  ['complete', 'stop'],
  // Baidu: the answer wasn't cut off or replaced.
  ['normal', 'stop'],
  ['model_length', 'length'],
  ['max_tokens', 'length'],
  ['max_output_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  // Clients that send the legacy `functions` expect this reason.
  ['function_call', 'function_call'],
  ['tool_use', 'tool_calls'],
  ['tool_call', 'tool_calls'],
  ['refusal', 'content_filter'],
  ['safety', 'content_filter'],
  ['sensitive', 'content_filter'],
  ['content_filtered', 'content_filter'],
  ['guardrail_intervened', 'content_filter'],
  // Google's own reasons, which its OpenAI-style endpoint doesn't convert.
  ['recitation', 'content_filter'],
  ['language', 'content_filter'],
  ['blocklist', 'content_filter'],
  ['prohibited_content', 'content_filter'],
  ['spii', 'content_filter'],
  ['model_armor', 'content_filter'],
  ['image_safety', 'content_filter'],
]);

/**
 * Returns the finish reason for the client, or null if there is none yet. Some local servers report
 * `stop` for an answer with tool calls, so clients wouldn't run the calls. Other servers report
 * `tool_calls` for an answer without any call.
 */
export function readFinishReason(
  { finish_reason: raw, native_finish_reason: native }: JsonObject,
  hasToolCalls: boolean,
): string | null {
  // Some servers write the string "null".
  if (!isNonEmptyString(raw) || raw === 'null') return null;
  // Google adds details: `content_filter: RECITATION`.
  const [word = ''] = raw.toLowerCase().split(':', 1);
  const reason = finishReasons.get(word) ?? raw;
  const isVague = reason === 'stop' || reason === 'function_call';
  // OpenRouter reports `tool_calls` even for calls that the output limit cut off.
  const isCut = finishReasons.get(textOf(native).toLowerCase()) === 'length';
  if (isCut && (isVague || reason === 'tool_calls')) return 'length';
  if (hasToolCalls) return isVague ? 'tool_calls' : reason;
  return reason === 'tool_calls' ? 'stop' : reason;
}

/** Returns the stop sequence that vLLM reports. A number in this field is a stop token. */
export function stopSequenceIn({ stop_reason: sequence }: JsonObject): string | null {
  if (!isNonEmptyString(sequence)) return null;
  const word = sequence.toLowerCase();
  // Other servers put a finish reason in this field. Baidu doesn't, so `normal`, which only Baidu
  // uses as a finish reason, is a stop sequence here.
  return finishReasons.has(word) && word !== 'normal' ? null : sequence;
}

/** Returns the text of a thinking part, which is a string or a list of text parts. */
function partText(part: unknown): string {
  if (typeof part === 'string') return part;
  if (Array.isArray(part)) return part.map(partText).join('');
  return textOf(fieldsOf(part).text);
}

/** Returns the text of one entry of `reasoning_details`. */
export function reasoningIn({ text, summary }: JsonObject): string {
  return partText(text ?? summary);
}

/** Returns reasoning from fields other than `reasoning`. The first field with text wins. */
function reasoningElsewhere(fields: JsonObject): string {
  const { reasoning_content: content, reasoning_details: details } = fields;
  if (isNonEmptyString(content)) return content;
  return objectsIn(details).map(reasoningIn).join('');
}

/**
 * Splits content that is a list of parts. Mistral and Databricks send a list when a model thinks.
 * Other vendors send one when a model generates images. Images are moved to `images`, where
 * OpenRouter's clients look for them.
 */
function splitParts(fields: JsonObject): void {
  const parts = Array.isArray(fields.content) ? fields.content : [fields.content];
  const isThinking = (part: unknown) =>
    isObject(part) && (part.type === 'thinking' || part.type === 'reasoning');
  const thinking = parts.filter(isThinking).map((part) => partText(part.thinking ?? part.summary));
  const texts = parts.filter((part) => !isThinking(part)).map(partText);
  fields.content = texts.join('');
  const reasoning = thinking.join('');
  if (reasoning !== '') fields.reasoning = reasoning;
  const imageParts = objectsIn(parts).filter(({ type }) => type === 'image_url');
  if (imageParts.length > 0)
    fields.images = [...itemsOf(fields.images), ...imageParts.map(toImagePart)];
}

/** Mistral may send the URL itself instead of an object with the URL. */
function toImagePart(part: JsonObject): JsonObject {
  const { image_url: url } = part;
  return typeof url === 'string' ? { ...part, image_url: { url } } : part;
}

/** Removes the empty `function_call` that some servers send. Returns true if there was one. */
function dropEmptyCall(fields: JsonObject): boolean {
  const { function_call: functionCall } = fields;
  if (
    !isObject(functionCall) ||
    isNonEmptyString(functionCall.name) ||
    isNonEmptyString(functionCall.arguments)
  )
    return false;
  fields.function_call = undefined;
  return true;
}

/**
 * Removes the empty `custom` that Snowflake sends in calls of functions. Clients would take them
 * for calls of a custom tool. Returns true if there was one.
 */
export function dropEmptyCustom(call: unknown): boolean {
  if (!isObject(call) || !isObject(call.custom) || !isObject(call.function)) return false;
  const { name, input } = call.custom;
  if (isNonEmptyString(name) || isNonEmptyString(input)) return false;
  call.custom = undefined;
  return true;
}

/**
 * Turns a `function_call` into a tool call. Returns true if there was one. If `tool_calls` is also
 * present, `function_call` only repeats its first call. `index` is for deltas of a stream.
 */
export function convertFunctionCall(fields: JsonObject, index?: number): boolean {
  const { function_call: functionCall, tool_calls: calls } = fields;
  if (!isObject(functionCall)) return false;
  fields.function_call = undefined;
  if (itemsOf(calls).length === 0) fields.tool_calls = [{ index, function: functionCall }];
  return true;
}

/**
 * Makes `content` a string, copies reasoning to `reasoning`, and removes an empty `function_call`
 * and Vercel's metadata of its own gateway. Returns true if anything changed.
 */
export function normalizeText(fields: JsonObject): boolean {
  const { content, provider_metadata: metadata } = fields;
  const isParts = typeof content !== 'string' && content !== null && content !== undefined;
  if (isParts) splitParts(fields);
  const hasPrivate = isObject(metadata) && removePrivateFields(metadata);
  const changed = dropEmptyCall(fields) || isParts || hasPrivate;
  if (isNonEmptyString(fields.reasoning)) return changed;
  const reasoning = reasoningElsewhere(fields);
  if (reasoning === '') return changed;
  fields.reasoning = reasoning;
  return true;
}

/**
 * Returns the sources that an answer or a chunk lists next to its choices, as annotations of its
 * text. Perplexity lists search results and their addresses, and xAI only addresses.
 */
export function sourcesIn({ search_results: results, citations }: JsonObject): readonly object[] {
  const isListed = itemsOf(results).length > 0;
  const sources = isListed ? objectsIn(results) : itemsOf(citations).map((url) => ({ url }));
  return sources.slice(0, citationsMax).flatMap(({ url, title, snippet }: JsonObject) => {
    if (typeof url !== 'string' || !/^https?:/i.test(url)) return [];
    return [annotationOf({ url, title: textOf(title), quote: textOf(snippet), range: null })];
  });
}

/** Adds the sources to a message or delta, unless it has annotations of its own. */
export function addSources(fields: JsonObject, sources: readonly object[]): boolean {
  if (sources.length === 0 || itemsOf(fields.annotations).length > 0) return false;
  fields.annotations = sources;
  return true;
}

/** Removes the reasoning. Returns true if there was any. */
export function hideReasoning(fields: JsonObject): boolean {
  const { reasoning, reasoning_content: content, reasoning_details: details } = fields;
  if (reasoning === undefined && content === undefined && details === undefined) return false;
  fields.reasoning = undefined;
  fields.reasoning_content = undefined;
  fields.reasoning_details = undefined;
  return true;
}

/** An audio token is 1/20 second, or 3,200 base64 characters. A text token is 4 characters. */
const base64PerCharacter = 800;

/** Returns the equivalent in characters of an answer's images and audio. */
function mediaIn({ audio, images }: JsonObject): number {
  const imageCharacters = Array.isArray(images) ? images.length * charactersPerImage : 0;
  if (!isObject(audio)) return imageCharacters;
  const audioCharacters = Math.ceil(lengthOf(audio.data) / base64PerCharacter);
  return imageCharacters + audioCharacters + lengthOf(audio.transcript);
}

/** Counts the characters of a normalized message or delta. */
export function charactersIn(fields: JsonObject): number {
  let characters = lengthOf(fields.content) + lengthOf(fields.reasoning) + lengthOf(fields.refusal);
  characters += mediaIn(fields);
  const { function_call: functionCall } = fields;
  if (isObject(functionCall))
    characters += lengthOf(functionCall.name) + lengthOf(functionCall.arguments);
  if (!Array.isArray(fields.tool_calls)) return characters;
  for (const call of fields.tool_calls) {
    const body: unknown = isObject(call) ? (call.function ?? call.custom) : undefined;
    if (!isObject(body)) continue;
    characters += lengthOf(body.name) + lengthOf(body.arguments) + lengthOf(body.input);
  }
  return characters;
}

/** True for a valid index of a choice. An absurd index would leave holes in clients' arrays. */
export function isChoiceIndex(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 1024;
}

function normalizeMessage(raw: unknown, acceptsTools: boolean): JsonObject {
  // Azure omits the message of a choice that its filter blocked.
  if (!isObject(raw)) return { role: 'assistant', content: '' };
  normalizeText(raw);
  if (acceptsTools) convertFunctionCall(raw);
  raw.role = 'assistant';
  if (raw.content === undefined) raw.content = null;
  if (raw.tool_calls === undefined) return raw;
  const list = [raw.tool_calls].flat();
  for (const call of list) dropEmptyCustom(call);
  const calls = normalizeToolCalls(list);
  raw.tool_calls = calls.length > 0 ? calls : undefined;
  return raw;
}

export interface NormalizedChoice {
  readonly message: JsonObject;
  readonly index: number;
  readonly characters: number;
  readonly finishReason: string | null;
}

/**
 * Normalizes a response's choice in place. `acceptsTools`: turn a `function_call` into a tool call.
 */
export function normalizeChoice(
  choice: JsonObject,
  position: number,
  acceptsTools = false,
): NormalizedChoice {
  // Some servers respond with a single stream chunk although no stream was requested.
  const message = normalizeMessage(choice.message ?? choice.delta, acceptsTools);
  const index = isChoiceIndex(choice.index) ? choice.index : position;
  const { tool_calls: calls } = message;
  const characters = charactersIn(message);
  const ended = { ...choice, finish_reason: 'stop' };
  // A complete response has ended, even if the server doesn't say why.
  const reason =
    readFinishReason(choice, calls !== undefined) ??
    (characters > 0 ? readFinishReason(ended, calls !== undefined) : null);
  const isCut = reason === 'tool_calls' && objectsIn(calls).some(isCutCall);
  const finishReason = isCut ? 'length' : reason;
  if (finishReason === 'tool_calls' && Array.isArray(calls)) completeToolCalls(calls);
  choice.index = index;
  choice.message = message;
  if (choice.delta !== undefined) choice.delta = undefined;
  if (choice.usage !== undefined) choice.usage = undefined;
  choice.finish_reason = finishReason;
  return { message, index, characters, finishReason };
}
