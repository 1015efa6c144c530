import { type Fields, fieldsOf, isObject, itemsOf } from '../../core/json.ts';
import {
  callAsTool,
  charactersIn,
  isChoiceIndex,
  normalizeText,
  readFinishReason,
} from './message.ts';
import { ToolCallAssembly } from './tool-calls.ts';

/** Mends the chunks of one OpenAI-style stream, each in place, and says whether it had to. */

/**
 * Takes out the fields that name the upstream's own request, account, prompt or models; true if
 * there was one. Everything else that is unknown passes: providers add fields all the time.
 */
export function removePrivateFields(body: Fields): boolean {
  const { x_groq: groq, request_id: request, user_id: user, prompt, model } = body;
  // Groq lists the models that worked on an answer, by their names.
  const isListed = body.usage_breakdown !== undefined;
  if (isListed) body.usage_breakdown = undefined;
  // LM Studio's fingerprint is the name of its model.
  const isNamed = model !== undefined && body.system_fingerprint === model;
  if (isNamed) body.system_fingerprint = undefined;
  if (groq === undefined && request === undefined && user === undefined && prompt === undefined) {
    return isNamed || isListed;
  }
  // Undefined is not written; deleting would make the object slow for all that follows.
  body.x_groq = undefined;
  body.request_id = undefined;
  body.user_id = undefined;
  body.prompt = undefined;
  return true;
}

export function isTerminator(data: string): boolean {
  return data === '[DONE]' || (data.length < 32 && data.trim() === '[DONE]');
}

/**
 * Whether a delta has words or a piece of a call. A finish reason beside them may not be the end:
 * some servers write one into every chunk.
 */
function hasContent(delta: Fields): boolean {
  return charactersIn(delta) > 0 || itemsOf(delta.tool_calls).length > 0;
}

/** Some servers put `null` between their chunks. */
export function isNullChunk(data: string): boolean {
  return data.trim() === 'null';
}

export class ChunkNormalizer {
  /** Only choices that call tools are here. */
  readonly #tools = new Map<number, ToolCallAssembly>();
  readonly #begun = new Set<number>();
  readonly #ended = new Set<number>();
  #hasDeltaContent = false;
  /**
   * Words followed a finish reason: from then on only the terminator is an end, not a lost
   * connection.
   */
  continuesAfterFinish = false;
  readonly #toolNames: readonly string[] | undefined;
  readonly #acceptsTools: boolean;

  /** Where the client `hearsTools`, the `function_call` of older servers becomes a tool call. */
  constructor(toolNames?: readonly string[], acceptsTools = false) {
    this.#toolNames = toolNames;
    this.#acceptsTools = acceptsTools;
  }

  normalize(chunk: Fields, choices: readonly Fields[]): boolean {
    let changed = removePrivateFields(chunk);
    // No failure was found in this `error`, so it is filler; but OpenAI's own clients fail at any.
    if (chunk.error) {
      chunk.error = undefined;
      changed = true;
    }
    if (chunk.object !== 'chat.completion.chunk') {
      chunk.object = 'chat.completion.chunk';
      changed = true;
    }
    for (let position = 0; position < choices.length; position += 1) {
      const choice = choices[position];
      if (choice !== undefined && this.#normalizeChoice(choice, position)) changed = true;
    }
    return changed;
  }

  #normalizeChoice(choice: Fields, position: number): boolean {
    const index = isChoiceIndex(choice.index) ? choice.index : position;
    let changed = choice.index !== index;
    if (changed) choice.index = index;
    const delta = this.#deltaOf(choice);
    const isOwn = choice.delta === delta;
    if (!isOwn) {
      choice.delta = delta;
      choice.message = undefined;
      changed = true;
    }
    const hadCalls = itemsOf(delta.tool_calls).length > 0;
    if (this.#normalizeDelta(delta, index)) changed = true;
    // A piece of a call that waits for more was taken out of the delta, but counts as said.
    const isMore = hasContent(delta) || (hadCalls && this.isWaiting(index));
    if (isOwn && !this.#hasDeltaContent) this.#hasDeltaContent = charactersIn(delta) > 0;
    if (choice.usage !== undefined) {
      choice.usage = undefined;
      changed = true;
    }
    if (this.#ended.has(index) && isMore) this.continuesAfterFinish = true;
    const { finish_reason: raw } = choice;
    if (raw === null) return changed;
    const reason = readFinishReason(raw, this.#tools.get(index)?.hasCalls ?? false);
    if (reason !== null) {
      this.#ended.add(index);
      if (!isMore && this.#completeDelta(delta, index, reason)) changed = true;
    }
    if (reason === raw) return changed;
    choice.finish_reason = reason;
    return true;
  }

  #completeDelta(delta: Fields, index: number, reason: string): boolean {
    const missing = this.complete(index, reason);
    if (missing.length > 0) delta.tool_calls = missing;
    return missing.length > 0;
  }

  /** Whether a call of a choice waits for its name. */
  isWaiting(index: unknown): boolean {
    return isChoiceIndex(index) && this.#tools.get(index)?.isWaiting === true;
  }

  /** What the calls of a choice still lack when the choice ended for `reason`. */
  complete(index: number, reason: unknown): readonly Fields[] {
    return this.#tools.get(index)?.complete(reason !== 'tool_calls') ?? [];
  }

  /**
   * Some servers write `message` where a delta belongs, in pieces or with the whole answer at once.
   * A message that follows deltas repeats them.
   */
  #deltaOf({ delta, message }: Fields): Fields {
    const deltaFields = fieldsOf(delta);
    if (!isObject(message) || this.#hasDeltaContent) return deltaFields;
    return charactersIn(deltaFields) === 0 ? message : deltaFields;
  }

  #normalizeDelta(delta: Fields, index: number): boolean {
    let changed = normalizeText(delta);
    if (this.#acceptsTools && callAsTool(delta, 0)) changed = true;
    if (this.#normalizeRole(delta, index)) changed = true;
    const { tool_calls: calls } = delta;
    if (calls === undefined || calls === null) return changed;
    // Older servers of Hugging Face send a single call that is not in a list.
    const callObjects = (Array.isArray(calls) ? calls : [calls]).filter(isObject);
    const normalized = callObjects.length > 0 ? this.#assemblyOf(index).normalize(callObjects) : [];
    if (normalized === callObjects && Array.isArray(calls) && callObjects.length === calls.length)
      return changed;
    delta.tool_calls = normalized.length > 0 ? normalized : undefined;
    return true;
  }

  /**
   * OpenAI's own client refuses an answer that never names its role, and SGLang writes `null`
   * wherever it names none.
   */
  #normalizeRole(delta: Fields, index: number): boolean {
    const { role } = delta;
    const isFirst = !this.#begun.has(index);
    if (isFirst) this.#begun.add(index);
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

/**
 * The end of a streamed choice. Servers put the finish reason beside the last words, beside an
 * empty text, send it twice, or in every chunk; clients get the last words first, then one chunk
 * with nothing but the last reason. Later chunks that say nothing are left out: Azure sends results
 * of its filters late.
 */

type Choice = Record<string, unknown>;

export interface SplitFinish {
  /** What the chunk still says, without finish reasons. */
  readonly content: readonly Choice[];
  /** Choices that end with this chunk and say nothing more: their ends are told at once. */
  readonly closed: readonly Choice[];
  /** Ends of choices that also said something in this chunk: held back, because more may follow. */
  readonly held: readonly Choice[];
}

/** The choices before this chunk; `untold` has the ends that were held back. */
interface ChoiceStates {
  readonly open: ReadonlySet<unknown>;
  readonly finished: ReadonlySet<unknown>;
  readonly pending: ReadonlyMap<unknown, unknown>;
}

/** The most ends held back: as many choices as a client may ask for, since each keeps a chunk. */
const pendingMax = 16;

/** Undefined when a chunk can pass as it came. */
export function splitFinish(
  choices: readonly Choice[],
  { open, finished, pending }: ChoiceStates,
  normalizer: Pick<ChunkNormalizer, 'isWaiting'>,
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
    if (isAfterEnd || Object.keys(deltaFields).length > 0) isClean = false;
    // The first chunk of a choice tells the role, even where it says nothing else.
    const hasMore = hasPayload(deltaFields) || !(isAfterEnd || open.has(index));
    if (hasMore) content.push({ ...choice, finish_reason: null });
    if (isAfterEnd && !pending.has(index)) continue;
    const canWait = pending.has(index) || pending.size + held.length < pendingMax;
    if (!hasMore && !normalizer.isWaiting(index)) closed.push({ ...choice, delta: {} });
    else (canWait ? held : closed).push(finishOnly(choice));
  }
  return isClean ? undefined : { content, closed, held };
}

/** The end of a choice alone: the delta and its log probabilities have gone out before. */
function finishOnly(choice: Choice): Choice {
  return { ...choice, delta: {}, ...(choice.logprobs === undefined ? {} : { logprobs: null }) };
}

/** Whether a delta tells a client anything but the role, which servers may repeat. */
function hasPayload(delta: Choice): boolean {
  return Object.entries(delta).some(([name, value]) => {
    if (name === 'role' || value === undefined || value === null || value === '') return false;
    return !Array.isArray(value) || value.length > 0;
  });
}
