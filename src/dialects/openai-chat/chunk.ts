import { fieldsOf, isObject, itemsOf, type JsonObject } from '../../core/json.ts';
import { removePrivateFields } from '../normalize/responses/private-fields.ts';
import {
  addSources,
  charactersIn,
  convertFunctionCall,
  dropEmptyCustom,
  isChoiceIndex,
  normalizeText,
  readFinishReason,
  sourcesIn,
} from './message.ts';
import { ToolCallAssembly } from './tool-calls.ts';

/**
 * Removes private fields, the prompt, and the upstream's model name from an answer or a chunk.
 * Returns true if there were any.
 */
export function removeUpstreamFields(body: JsonObject): boolean {
  const hasPrivate = removePrivateFields(body);
  const hasPrompt = body.prompt !== undefined;
  if (hasPrompt) body.prompt = undefined;
  // LM Studio's fingerprint is the name of its model.
  const isNamed = body.model !== undefined && body.system_fingerprint === body.model;
  if (isNamed) body.system_fingerprint = undefined;
  return hasPrivate || hasPrompt || isNamed;
}

/**
 * True if a delta has text or a fragment of a call. A finish reason in the same chunk as content
 * may not be the end: some servers write one into every chunk.
 */
function hasContent(delta: JsonObject): boolean {
  return charactersIn(delta) > 0 || itemsOf(delta.tool_calls).length > 0;
}

/** Normalizes the chunks of one OpenAI-style stream in place. */
export class ChunkNormalizer {
  /** Only choices with tool calls have an entry. */
  readonly #tools = new Map<number, ToolCallAssembly>();
  readonly #started = new Set<number>();
  /** The finish reasons of the choices that had one. */
  readonly #ended = new Map<number, string>();
  #hasDeltaContent = false;
  /** The last chunk that listed sources. They are sent once, when the answer ends. */
  #sourceChunk: JsonObject | undefined;
  #hasAnnotations = false;
  /**
   * True once content has followed a finish reason. From then on, only the terminator ends the
   * answer.
   */
  continuesAfterFinish = false;
  readonly #toolNames: readonly string[] | undefined;
  readonly #acceptsTools: boolean;

  /** `acceptsTools`: turn the `function_call` of older servers into a tool call. */
  constructor(toolNames?: readonly string[], acceptsTools = false) {
    this.#toolNames = toolNames;
    this.#acceptsTools = acceptsTools;
  }

  /** Returns true if anything changed. */
  normalize(chunk: JsonObject, choices: readonly JsonObject[]): boolean {
    let changed = removeUpstreamFields(chunk);
    // This `error` doesn't report a failure, but OpenAI's SDKs throw for any `error`.
    if (chunk.error) {
      chunk.error = undefined;
      changed = true;
    }
    if (chunk.object !== 'chat.completion.chunk') {
      chunk.object = 'chat.completion.chunk';
      changed = true;
    }
    if (chunk.citations || chunk.search_results) this.#sourceChunk = chunk;
    for (let position = 0; position < choices.length; position += 1) {
      const choice = choices[position];
      if (choice !== undefined && this.#normalizeChoice(choice, position)) changed = true;
    }
    return changed;
  }

  #normalizeChoice(choice: JsonObject, position: number): boolean {
    const index = isChoiceIndex(choice.index) ? choice.index : position;
    let changed = choice.index !== index;
    if (changed) choice.index = index;
    const delta = this.#deltaOf(choice);
    const isDelta = choice.delta === delta;
    if (!isDelta) {
      choice.delta = delta;
      choice.message = undefined;
      changed = true;
    }
    const hadCalls = itemsOf(delta.tool_calls).length > 0;
    if (this.#normalizeDelta(delta, index)) changed = true;
    if (delta.annotations) this.#hasAnnotations = true;
    // A buffered fragment of a call isn't in the delta anymore, but counts as content.
    const hasNewContent = hasContent(delta) || (hadCalls && this.isWaiting(index));
    if (isDelta && !this.#hasDeltaContent) this.#hasDeltaContent = charactersIn(delta) > 0;
    if (choice.usage !== undefined) {
      choice.usage = undefined;
      changed = true;
    }
    if (this.#ended.has(index) && hasNewContent) this.continuesAfterFinish = true;
    const { finish_reason: raw } = choice;
    if (raw === null) return changed;
    const reason = readFinishReason(choice, this.#tools.get(index)?.hasCalls ?? false);
    if (reason !== null) {
      if (index === 0 && this.#addSources(delta)) changed = true;
      this.#ended.set(index, reason);
      if (!hasNewContent && this.#completeDelta(delta, index)) changed = true;
    }
    if (reason === raw) return changed;
    choice.finish_reason = reason;
    return true;
  }

  /** Adds the sources to the last delta, unless the upstream has sent annotations. */
  #addSources(delta: JsonObject): boolean {
    if (this.#sourceChunk === undefined || this.#hasAnnotations || this.#ended.has(0)) return false;
    return addSources(delta, sourcesIn(this.#sourceChunk));
  }

  #completeDelta(delta: JsonObject, index: number): boolean {
    if (this.hasOpenArguments(index)) return false;
    const missing = this.complete(index);
    if (missing.length > 0) delta.tool_calls = missing;
    return missing.length > 0;
  }

  /** True if a call of the choice is buffered until its name arrives. */
  isWaiting(index: unknown): boolean {
    return isChoiceIndex(index) && this.#tools.get(index)?.isWaiting === true;
  }

  /** True if the arguments of one of the choice's calls have begun and not ended. */
  hasOpenArguments(index: unknown): boolean {
    return isChoiceIndex(index) && this.#tools.get(index)?.hasOpenArguments === true;
  }

  /**
   * Returns the last finish reason of a choice, or undefined. Some servers report a call that the
   * output limit cut off as finished. A client would run it with half of its input.
   */
  finishReason(index: number): string | undefined {
    const reason = this.#ended.get(index);
    return reason === 'tool_calls' && this.hasOpenArguments(index) ? 'length' : reason;
  }

  /** Returns what the calls of a choice that ended still lack. */
  complete(index: number): readonly JsonObject[] {
    return this.#tools.get(index)?.complete(this.finishReason(index) !== 'tool_calls') ?? [];
  }

  /**
   * Some servers send a `message` instead of a delta. It contains a fragment or the complete
   * answer. A message after deltas only repeats them.
   */
  #deltaOf({ delta, message }: JsonObject): JsonObject {
    const deltaFields = fieldsOf(delta);
    if (!isObject(message) || this.#hasDeltaContent) return deltaFields;
    return charactersIn(deltaFields) === 0 ? message : deltaFields;
  }

  #normalizeDelta(delta: JsonObject, index: number): boolean {
    let changed = normalizeText(delta);
    if (this.#acceptsTools && convertFunctionCall(delta, 0)) changed = true;
    if (this.#normalizeRole(delta, index)) changed = true;
    const { tool_calls: calls } = delta;
    if (calls === undefined || calls === null) return changed;
    // Older Hugging Face servers send a single call that isn't in a list.
    const callObjects = (Array.isArray(calls) ? calls : [calls]).filter(isObject);
    for (const call of callObjects) if (dropEmptyCustom(call)) changed = true;
    const normalized = callObjects.length > 0 ? this.#assemblyOf(index).normalize(callObjects) : [];
    if (normalized === callObjects && Array.isArray(calls) && callObjects.length === calls.length)
      return changed;
    delta.tool_calls = normalized.length > 0 ? normalized : undefined;
    return true;
  }

  /**
   * Sets the role in the first delta only. OpenAI's own client rejects an answer without a role,
   * and SGLang sends `null` in all later deltas.
   */
  #normalizeRole(delta: JsonObject, index: number): boolean {
    const { role } = delta;
    const isFirst = !this.#started.has(index);
    if (isFirst) this.#started.add(index);
    if (role === 'assistant' || (role === undefined && !isFirst)) return false;
    delta.role = isFirst ? 'assistant' : undefined;
    return true;
  }

  #assemblyOf(index: number): ToolCallAssembly {
    const known = this.#tools.get(index);
    if (known !== undefined) return known;
    const assembly = new ToolCallAssembly(this.#toolNames);
    this.#tools.set(index, assembly);
    return assembly;
  }
}

// Separates the finish reason of a choice from its content. Servers send the finish reason with the
// last content, with empty text, twice, or in every chunk. Clients get all content first, and then
// one finish chunk that contains only the last reason. Later chunks without content, such as
// Azure's late filter results, are dropped.

type Choice = Record<string, unknown>;

export interface SplitFinish {
  /** The choices with content, without their finish reasons. */
  readonly content: readonly Choice[];
  /** Choices that end with this chunk and have no content: their finish chunks are sent at once. */
  readonly closed: readonly Choice[];
  /**
   * Finish chunks of choices that also have content here. They are held: more content may follow.
   */
  readonly held: readonly Choice[];
}

/** The state of the choices before this chunk. `pending` contains the held finish chunks. */
interface ChoiceStates {
  readonly open: ReadonlySet<unknown>;
  readonly finished: ReadonlySet<unknown>;
  readonly pending: ReadonlyMap<unknown, unknown>;
}

/** The maximum number of held finish chunks, one for each choice that a client may request. */
const pendingMax = 16;

/** Separates content from finish reasons. Returns undefined if the chunk can pass unchanged. */
export function splitFinish(
  choices: readonly Choice[],
  { open, finished, pending }: ChoiceStates,
  normalizer: Pick<ChunkNormalizer, 'isWaiting' | 'hasOpenArguments'>,
): SplitFinish | undefined {
  const mayClose = ({ finish_reason: reason, index }: Choice) =>
    typeof reason === 'string' || finished.has(index);
  if (!choices.some(mayClose)) return undefined;
  const content: Choice[] = [];
  const closed: Choice[] = [];
  const held: Choice[] = [];
  let isClean = true;
  for (const choice of choices) {
    const { finish_reason: reason, delta, index } = choice;
    const deltaFields = delta as Choice;
    const isAfterEnd = finished.has(index);
    if (typeof reason !== 'string') {
      if (!isAfterEnd || hasPayload(deltaFields)) content.push(choice);
      else isClean = false;
      continue;
    }
    const mayContinue = normalizer.isWaiting(index) || normalizer.hasOpenArguments(index);
    if (isAfterEnd || mayContinue || Object.keys(deltaFields).length > 0) isClean = false;
    // The first chunk of a choice is sent even without content, because it has the role.
    const hasContentLeft = hasPayload(deltaFields) || !(isAfterEnd || open.has(index));
    if (hasContentLeft) content.push({ ...choice, finish_reason: null });
    if (isAfterEnd && !pending.has(index)) continue;
    const canWait = pending.has(index) || pending.size + held.length < pendingMax;
    if (!hasContentLeft && !mayContinue) closed.push({ ...choice, delta: {} });
    else (canWait ? held : closed).push(finishOnly(choice));
  }
  return isClean ? undefined : { content, closed, held };
}

/** Removes the delta and its log probabilities, which are sent in the content chunk. */
function finishOnly(choice: Choice): Choice {
  return { ...choice, delta: {}, ...(choice.logprobs === undefined ? {} : { logprobs: null }) };
}

/** True if a delta has anything other than the role, which servers may repeat. */
function hasPayload(delta: Choice): boolean {
  return Object.entries(delta).some(([name, value]) => {
    if (name === 'role' || value === undefined || value === null || value === '') return false;
    return !Array.isArray(value) || value.length > 0;
  });
}
