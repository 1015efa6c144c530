/** Mends the chunks of one OpenAI-style stream, each in place, and says whether it had to. */
import { type Fields, fieldsOf, isObject, itemsOf } from '../../core/json.ts';
import { isChoiceIndex } from './choice.ts';
import { callAsTool, charactersIn, mendText, readFinishReason } from './message.ts';
import { ToolCallAssembly } from './tool-calls.ts';

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
function saysMore(delta: Fields): boolean {
  return charactersIn(delta) > 0 || itemsOf(delta.tool_calls).length > 0;
}

/** Some servers put `null` between their chunks. */
export function isNothing(data: string): boolean {
  return data.trim() === 'null';
}

export class ChunkMender {
  /** Only choices that call tools are here. */
  readonly #tools = new Map<number, ToolCallAssembly>();
  readonly #begun = new Set<number>();
  readonly #ended = new Set<number>();
  #speaksInDeltas = false;
  /**
   * Words followed a finish reason: from then on only the terminator is an end, not a lost
   * connection.
   */
  goesOn = false;
  readonly #toolNames: readonly string[] | undefined;
  readonly #hearsTools: boolean;

  /** Where the client `hearsTools`, the `function_call` of older servers becomes a tool call. */
  constructor(toolNames?: readonly string[], hearsTools = false) {
    this.#toolNames = toolNames;
    this.#hearsTools = hearsTools;
  }

  mend(chunk: Fields, choices: readonly Fields[]): boolean {
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
      if (choice !== undefined && this.#mendChoice(choice, position)) changed = true;
    }
    return changed;
  }

  #mendChoice(choice: Fields, position: number): boolean {
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
    if (this.#mendDelta(delta, index)) changed = true;
    // A piece of a call that waits for more was taken out of the delta, but counts as said.
    const isMore = saysMore(delta) || (hadCalls && this.isWaiting(index));
    if (isOwn && !this.#speaksInDeltas) this.#speaksInDeltas = charactersIn(delta) > 0;
    if (choice.usage !== undefined) {
      choice.usage = undefined;
      changed = true;
    }
    if (this.#ended.has(index) && isMore) this.goesOn = true;
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
    const lacking = this.complete(index, reason);
    if (lacking.length > 0) delta.tool_calls = lacking;
    return lacking.length > 0;
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
    const words = fieldsOf(delta);
    if (!isObject(message) || this.#speaksInDeltas) return words;
    return charactersIn(words) === 0 ? message : words;
  }

  #mendDelta(delta: Fields, index: number): boolean {
    let changed = mendText(delta);
    if (this.#hearsTools && callAsTool(delta, 0)) changed = true;
    if (this.#mendRole(delta, index)) changed = true;
    const { tool_calls: calls } = delta;
    if (calls === undefined || calls === null) return changed;
    // Older servers of Hugging Face send a single call that is not in a list.
    const kept = (Array.isArray(calls) ? calls : [calls]).filter(isObject);
    const mended = kept.length > 0 ? this.#assemblyOf(index).mend(kept) : [];
    if (mended === kept && Array.isArray(calls) && kept.length === calls.length) return changed;
    delta.tool_calls = mended.length > 0 ? mended : undefined;
    return true;
  }

  /**
   * OpenAI's own client refuses an answer that never names its role, and SGLang writes `null`
   * wherever it names none.
   */
  #mendRole(delta: Fields, index: number): boolean {
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
