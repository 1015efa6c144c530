import {
  type Fields,
  fieldsOf,
  isObject,
  isText,
  itemsOf,
  lengthOf,
  objectsIn,
  textOf,
} from '../../core/json.ts';
import { charactersPerImage } from '../../core/usage.ts';
import { completeToolCalls, normalizeToolCalls } from './tool-calls.ts';

/** What a delta of a stream and the message of a whole reply have in common, and its mending. */

/** Other servers' finish reasons in OpenAI's words. A word not listed stays as it is. */
const finishReasons: ReadonlyMap<string, string> = new Map([
  // OpenAI's own words are listed because some servers write them in capitals.
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
  // Baidu, of an answer that was neither cut nor replaced.
  ['normal', 'stop'],
  ['model_length', 'length'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  // From before there were tools: clients that ask with `functions` wait for it.
  ['function_call', 'function_call'],
  ['tool_use', 'tool_calls'],
  ['tool_call', 'tool_calls'],
  ['refusal', 'content_filter'],
  ['safety', 'content_filter'],
  ['sensitive', 'content_filter'],
  ['content_filtered', 'content_filter'],
  ['guardrail_intervened', 'content_filter'],
  // Google's own words, which its OpenAI-style endpoint passes on.
  ['recitation', 'content_filter'],
  ['language', 'content_filter'],
  ['blocklist', 'content_filter'],
  ['prohibited_content', 'content_filter'],
  ['spii', 'content_filter'],
  ['model_armor', 'content_filter'],
  ['image_safety', 'content_filter'],
]);

/**
 * The finish reason a client sees; null while there is none. Local servers say `stop` although
 * they delivered tool calls, and then clients would never run the tools; others say `tool_calls`
 * and deliver none, and then clients would look for them in vain.
 */
export function readFinishReason(raw: unknown, hasToolCalls: boolean): string | null {
  // Some servers write `null` as a word.
  if (!isText(raw) || raw === 'null') return null;
  // Google says why: `content_filter: RECITATION`.
  const [word = ''] = raw.toLowerCase().split(':', 1);
  const reason = finishReasons.get(word) ?? raw;
  const isVague = reason === 'stop' || reason === 'function_call';
  if (hasToolCalls) return isVague ? 'tool_calls' : reason;
  return reason === 'tool_calls' ? 'stop' : reason;
}

/** The stop sequence that ended the answer, as vLLM tells it; a number there is a stop token. */
export function stopSequenceIn({ stop_reason: met }: Fields): string | null {
  if (!isText(met)) return null;
  const word = met.toLowerCase();
  // Other servers put a finish reason there. Baidu has no such field, so its word is a client's.
  return finishReasons.has(word) && word !== 'normal' ? null : met;
}

/** A thinking part has its text as a string or as a list of text parts. */
function partText(part: unknown): string {
  if (typeof part === 'string') return part;
  if (Array.isArray(part)) return part.map(partText).join('');
  return textOf(fieldsOf(part).text);
}

/** The words of one entry of `reasoning_details`. */
export function thoughtIn({ text, summary }: Fields): string {
  return partText(text ?? summary);
}

/** Reasoning under other names than `reasoning`; the first that has text wins. */
function reasoningElsewhere(fields: Fields): string {
  const { reasoning_content: content, reasoning_details: details } = fields;
  if (isText(content)) return content;
  return objectsIn(details).map(thoughtIn).join('');
}

/**
 * Mistral and Databricks send content as a list of parts once a model thinks, others once it makes
 * pictures. Clients look for pictures in `images`, where OpenRouter puts them.
 */
function splitParts(fields: Fields): void {
  const parts = Array.isArray(fields.content) ? fields.content : [fields.content];
  const isThinking = (part: unknown) =>
    isObject(part) && (part.type === 'thinking' || part.type === 'reasoning');
  const thoughts = parts.filter(isThinking).map((part) => partText(part.thinking ?? part.summary));
  const texts = parts.filter((part) => !isThinking(part)).map(partText);
  fields.content = texts.join('');
  const reasoning = thoughts.join('');
  if (reasoning !== '') fields.reasoning = reasoning;
  const imageParts = objectsIn(parts).filter(({ type }) => type === 'image_url');
  if (imageParts.length > 0)
    fields.images = [...itemsOf(fields.images), ...imageParts.map(toImagePart)];
}

/** Mistral may write the address itself where an object with the address belongs. */
function toImagePart(part: Fields): Fields {
  const { image_url: url } = part;
  return typeof url === 'string' ? { ...part, image_url: { url } } : part;
}

/** Some servers write an empty `function_call` beside words or calls; true if there was one. */
function dropEmptyCall(fields: Fields): boolean {
  const { function_call: only } = fields;
  if (!isObject(only) || isText(only.name) || isText(only.arguments)) return false;
  fields.function_call = undefined;
  return true;
}

/**
 * Turns a `function_call` into a tool call; true if there was one. Beside `tool_calls` it only
 * repeats their first. `index` is for the deltas of a stream.
 */
export function callAsTool(fields: Fields, index?: number): boolean {
  const { function_call: only, tool_calls: calls } = fields;
  if (!isObject(only)) return false;
  fields.function_call = undefined;
  if (itemsOf(calls).length === 0) fields.tool_calls = [{ index, function: only }];
  return true;
}

/**
 * Makes `content` a text, offers reasoning as `reasoning` and takes out an empty `function_call`;
 * true if anything had to change.
 */
export function normalizeText(fields: Fields): boolean {
  const { content } = fields;
  const isParts = typeof content !== 'string' && content !== null && content !== undefined;
  if (isParts) splitParts(fields);
  const changed = dropEmptyCall(fields) || isParts;
  if (isText(fields.reasoning)) return changed;
  const reasoning = reasoningElsewhere(fields);
  if (reasoning === '') return changed;
  fields.reasoning = reasoning;
  return true;
}

/** Takes out the reasoning, for a client that does not want to see it; true if there was any. */
export function hideReasoning(fields: Fields): boolean {
  const { reasoning, reasoning_content: content, reasoning_details: details } = fields;
  if (reasoning === undefined && content === undefined && details === undefined) return false;
  fields.reasoning = undefined;
  fields.reasoning_content = undefined;
  fields.reasoning_details = undefined;
  return true;
}

/** An audio token is 1/20 second: 3,200 letters of base64. A text token has four characters. */
const audioLettersPerCharacter = 800;

/** The pictures and sounds of an answer, counted in characters. */
function mediaIn({ audio, images }: Fields): number {
  const imageCharacters = Array.isArray(images) ? images.length * charactersPerImage : 0;
  if (!isObject(audio)) return imageCharacters;
  const audioCharacters = Math.ceil(lengthOf(audio.data) / audioLettersPerCharacter);
  return imageCharacters + audioCharacters + lengthOf(audio.transcript);
}

/** Characters a client receives, counted on a mended message or delta. */
export function charactersIn(fields: Fields): number {
  let characters = lengthOf(fields.content) + lengthOf(fields.reasoning) + lengthOf(fields.refusal);
  characters += mediaIn(fields);
  const { function_call: only } = fields;
  if (isObject(only)) characters += lengthOf(only.name) + lengthOf(only.arguments);
  if (!Array.isArray(fields.tool_calls)) return characters;
  for (const call of fields.tool_calls) {
    const body: unknown = isObject(call) ? (call.function ?? call.custom) : undefined;
    if (!isObject(body)) continue;
    characters += lengthOf(body.name) + lengthOf(body.arguments) + lengthOf(body.input);
  }
  return characters;
}

/** The choices of an answer, and the mending of those in a whole reply. */

/** The failure of a whole answer that says nothing. */
export const noOutput = 'The upstream answered without any output and without a finish reason.';

/** Whether `value` can be a choice's number; absurd ones would make holes in clients' arrays. */
export function isChoiceIndex(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 1024;
}

function normalizeMessage(raw: unknown, acceptsTools: boolean): Fields {
  // Azure leaves the message out of a choice that its filter took.
  if (!isObject(raw)) return { role: 'assistant', content: '' };
  normalizeText(raw);
  if (acceptsTools) callAsTool(raw);
  raw.role = 'assistant';
  if (raw.content === undefined) raw.content = null;
  if (raw.tool_calls === undefined) return raw;
  const calls = normalizeToolCalls([raw.tool_calls].flat());
  raw.tool_calls = calls.length > 0 ? calls : undefined;
  return raw;
}

export interface NormalizedChoice {
  readonly message: Fields;
  readonly index: number;
  readonly characters: number;
  readonly finishReason: string | null;
}

/** Mends a choice in place. If the client `hearsTools`, a `function_call` becomes a tool call. */
export function normalizeChoice(
  choice: Fields,
  position: number,
  acceptsTools = false,
): NormalizedChoice {
  // Some servers answer with a single chunk of a stream, although no stream was asked for.
  const message = normalizeMessage(choice.message ?? choice.delta, acceptsTools);
  const index = isChoiceIndex(choice.index) ? choice.index : position;
  const { tool_calls: calls } = message;
  const finishReason = readFinishReason(choice.finish_reason, calls !== undefined);
  if (finishReason === 'tool_calls' && Array.isArray(calls)) completeToolCalls(calls);
  choice.index = index;
  choice.message = message;
  if (choice.delta !== undefined) choice.delta = undefined;
  choice.finish_reason = finishReason;
  return { message, index, characters: charactersIn(message), finishReason };
}
