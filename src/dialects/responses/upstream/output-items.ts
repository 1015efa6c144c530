import type { AnswerSink } from '../../../core/answer.ts';
import {
  outputItemsMax,
  toolCallNamesLengthMax,
  toolCallsPerAnswerMax,
} from '../../../core/bounds.ts';
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
import { MalformedAnswer } from '../../failure.ts';
import { freeFormArguments } from '../../normalize/requests/tools.ts';
import { codePointLength } from '../../normalize/responses/counts.ts';
import { newCallId } from '../../normalize/responses/identity.ts';
import { JsonEndScanner } from '../../normalize/responses/tool-arguments.ts';
import { joinSignature, plainMark } from '../reasoning-signature.ts';

/** The state of one output item. */
interface ItemState {
  /**
   * The call, as first announced. It isn't emitted before its arguments, because other content may
   * arrive first.
   */
  announced: JsonObject | undefined;
  /** The number of the item's call, undefined until the call is emitted. */
  call: number | undefined;
  /** True once a delta of the item's text, reasoning, refusal, or arguments has arrived. */
  hasDeltas: boolean;
  /** The length of the arguments emitted so far, and whether their JSON is complete. */
  argumentsLength: number;
  readonly argumentsEnd: JsonEndScanner;
  isDone: boolean;
  /** The position in the answer's text at which the item's text, or its current part, starts. */
  start: number;
}

const imageTypes: ReadonlyMap<unknown, string> = new Map([
  ['jpeg', 'image/jpeg'],
  ['webp', 'image/webp'],
]);

/** Calls that the client runs. The provider runs all other calls. */
const callTypes: ReadonlySet<unknown> = new Set(['function_call', 'custom_tool_call']);

/** Searches that xAI runs itself but returns as calls of custom tools. */
const xaiSearches: ReadonlySet<unknown> = new Set([
  'x_keyword_search',
  'x_semantic_search',
  'x_thread_fetch',
  'x_user_search',
]);

/** True if an item is a call that the client must run. */
export function isClientCall({ type, name }: JsonObject): boolean {
  return callTypes.has(type) && !(type === 'custom_tool_call' && xaiSearches.has(name));
}

const messageSeparator = '\n\n';

/** Returns the arguments as JSON, or `{}` if the server sent none. */
export function argumentsOf({ type, arguments: json, input }: JsonObject): string {
  if (type === 'custom_tool_call') return freeFormArguments(textOf(input));
  return isNonEmptyString(json) ? json : JSON.stringify(fieldsOf(json));
}

/**
 * Emits output items, which arrive complete, in deltas, or both. Emits each piece of content once.
 */
export class ItemEmitter {
  readonly #sink: AnswerSink;
  readonly #provider: string | undefined;
  readonly #states = new Map<unknown, ItemState>();
  readonly #indexes = new ItemIndexes();
  #calls = 0;
  #announced = 0;
  #namesLength = 0;
  #textLength = 0;
  /** The last message with text, and whether that text ended with white space. */
  #lastMessage: ItemState | undefined;
  #endsWithSpace = true;

  constructor(sink: AnswerSink, provider?: string) {
    this.#sink = sink;
    this.#provider = provider;
  }

  get hasCalls(): boolean {
    return this.#calls > 0;
  }

  /** True if no further item can be read. */
  get isFull(): boolean {
    return this.#states.size === outputItemsMax;
  }

  take(type: string, message: JsonObject): void {
    const { item, delta } = message;
    const index = this.#indexes.of(message);
    switch (type) {
      case 'response.output_item.added':
        if (isObject(item)) this.#announce(index, item);
        return;
      case 'response.output_item.done':
        if (isObject(item)) this.#emitItem(index, item);
        return;
      case 'response.reasoning_summary_part.added':
        // The parts of a summary are paragraphs.
        if (this.#states.get(index)?.hasDeltas) this.#sink.reasoning('\n\n');
        return;
      case 'response.content_part.added': {
        const state = this.#stateAt(index);
        if (state !== undefined) state.start = this.#textLength;
        return;
      }
      case 'response.output_text.annotation.added':
        this.#cite(message.annotation, this.#states.get(index)?.start ?? 0);
        return;
      case 'response.function_call_arguments.done':
        this.#readArguments(index, message.arguments);
        return;
      case 'response.custom_tool_call_input.done':
        this.#readArguments(
          index,
          isNonEmptyString(message.input) && freeFormArguments(message.input),
        );
        return;
      default:
        if (isNonEmptyString(delta)) this.#readDelta(type, index, delta);
    }
  }

  /** Completes calls that some servers announce without sending any arguments. */
  end(): void {
    for (const state of this.#states.values()) {
      const call = state.hasDeltas || state.isDone ? undefined : this.#callOf(state);
      if (call === undefined) continue;
      state.isDone = true;
      this.#sink.toolArguments(call, '{}');
    }
  }

  /** Reads complete arguments. Some servers send no deltas before them. */
  #readArguments(index: unknown, json: unknown): void {
    const state = this.#states.get(index);
    if (state !== undefined && !state.isDone && isNonEmptyString(json)) this.#emitRest(state, json);
  }

  /**
   * Emits the part of the complete arguments that the deltas didn't contain. Some servers stop
   * sending deltas early.
   */
  #emitRest(state: ItemState, json: string): void {
    const rest = state.argumentsEnd.isComplete ? '' : json.slice(state.argumentsLength);
    if (rest !== '') this.#emitArguments(state, rest);
  }

  /**
   * Ignores the arguments of a call that wasn't announced. The call is emitted once its item is
   * complete.
   */
  #emitArguments(state: ItemState, json: string): void {
    const call = this.#callOf(state);
    if (call === undefined) return;
    state.hasDeltas = true;
    state.argumentsLength += json.length;
    state.argumentsEnd.push(json);
    this.#sink.toolArguments(call, json);
  }

  /** Emits the content of the complete output that hasn't been emitted yet. */
  emitOutput(output: unknown): void {
    for (const [index, item] of itemsOf(output).entries()) {
      if (isObject(item)) this.#emitItem(this.#indexes.indexInOutput(item, index), item);
    }
  }

  /** Emits the content of a complete item that hasn't been emitted yet. */
  #emitItem(index: unknown, item: JsonObject): void {
    const state = this.#stateAt(index);
    if (state === undefined || state.isDone) return;
    state.isDone = true;
    // If a provider's own search was announced without a name, it looked like a call that the
    // client must run.
    if (!isClientCall({ ...state.announced, ...item })) state.announced = undefined;
    this.#callOf(state, isNonEmptyString(item.name) ? item : (state.announced ?? item));
    if (item.type === 'message') this.#emitMessage(item, state);
    if (item.type === 'reasoning') this.#emitReasoning(item, state);
    if (item.type === 'image_generation_call') this.#emitImage(item);
    this.#emitRest(state, argumentsOf(item));
  }

  /** Stores a call until it is emitted. Limits the number of calls and the length of names. */
  #announce(index: unknown, item: JsonObject): void {
    const { type, name, call_id } = item;
    const state = this.#stateAt(index);
    if (state === undefined || !isClientCall(item)) return;
    state.announced = { type, name, call_id };
    this.#announced += 1;
    this.#namesLength += lengthOf(name) + lengthOf(call_id);
    if (this.#announced <= toolCallsPerAnswerMax && this.#namesLength <= toolCallNamesLengthMax)
      return;
    throw new MalformedAnswer('too many tool calls');
  }

  /**
   * Returns the number of the item's call, and emits the call if it is new. Returns undefined for
   * other items.
   */
  #callOf(state: ItemState, item = state.announced): number | undefined {
    if (state.call !== undefined || item === undefined) return state.call;
    if (!isClientCall(item)) return undefined;
    // A call without a name isn't emitted yet, because the name may arrive with the complete item.
    if (!isNonEmptyString(item.name) && !state.isDone) return undefined;
    state.call = this.#calls;
    this.#calls += 1;
    const id = isNonEmptyString(item.call_id) ? item.call_id : newCallId();
    this.#sink.toolCall(state.call, id, textOf(item.name));
    return state.call;
  }

  #stateAt(index: unknown): ItemState | undefined {
    const known = this.#states.get(index);
    if (known !== undefined || this.isFull) return known;
    const state: ItemState = {
      announced: undefined,
      call: undefined,
      hasDeltas: false,
      argumentsLength: 0,
      argumentsEnd: new JsonEndScanner(),
      isDone: false,
      start: this.#textLength,
    };
    this.#states.set(index, state);
    return state;
  }

  #readDelta(type: string, index: unknown, delta: string): void {
    const state = this.#stateAt(index);
    if (state === undefined || state.isDone) return;
    switch (type) {
      case 'response.output_text.delta':
        this.#startText(state);
        this.#emitText(delta);
        break;
      case 'response.refusal.delta':
        this.#sink.refusal(delta);
        break;
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        this.#sink.reasoning(delta);
        break;
      case 'response.function_call_arguments.delta':
        this.#emitArguments(state, delta);
        return;
      case 'response.custom_tool_call_input.delta':
        // Emit only the call itself. Its input is emitted once it is complete.
        this.#callOf(state);
        return;
      default:
        return;
    }
    state.hasDeltas = true;
  }

  #emitMessage({ content }: JsonObject, state: ItemState): void {
    if (state.hasDeltas) return;
    for (const { text, refusal, annotations } of objectsIn(content)) {
      if (isNonEmptyString(text)) this.#startText(state);
      const start = this.#textLength;
      if (isNonEmptyString(text)) this.#emitText(text);
      if (isNonEmptyString(refusal)) this.#sink.refusal(refusal);
      for (const annotation of itemsOf(annotations)) this.#cite(annotation, start);
    }
  }

  /**
   * Emits an empty line between two messages. Some models announce their next step in a separate
   * message.
   */
  #startText(state: ItemState): void {
    if (this.#lastMessage !== state && !this.#endsWithSpace) {
      state.start += messageSeparator.length;
      this.#emitText(messageSeparator);
    }
    this.#lastMessage = state;
  }

  #emitText(text: string): void {
    this.#textLength += codePointLength(text);
    this.#endsWithSpace = text.at(-1)?.trim() === '';
    this.#sink.text(text);
  }

  /**
   * Emits an image from the provider's own tool. Previews arrive in other events and are ignored.
   */
  #emitImage({ result, output_format: format }: JsonObject): void {
    if (isNonEmptyString(result)) this.#sink.image(imageTypes.get(format) ?? 'image/png', result);
  }

  #emitReasoning(item: JsonObject, state: ItemState): void {
    const { id, summary, content, encrypted_content: encrypted } = item;
    if (!state.hasDeltas) {
      const text = textsIn(summary) || textsIn(content);
      if (text !== '') this.#sink.reasoning(text);
    }
    const signed = isNonEmptyString(encrypted) ? encrypted : plainMark(item, this.#provider);
    if (isNonEmptyString(id) && signed) this.#sink.reasoningSignature(joinSignature(id, signed));
  }

  /** `from` is the offset of the text that the annotation's indexes refer to. */
  #cite(annotation: unknown, from: number): void {
    if (!isObject(annotation) || !isNonEmptyString(annotation.url)) return;
    const { url, title, start_index: start, end_index: end } = annotation;
    const hasRange = typeof start === 'number' && typeof end === 'number';
    this.#sink.citation({
      url,
      title: textOf(title),
      quote: '',
      range: hasRange ? { start: from + start, end: from + end } : null,
    });
  }
}

function textsIn(parts: unknown): string {
  const texts = objectsIn(parts).map(({ text }) => text);
  return texts.filter(isNonEmptyString).join('\n\n');
}

/**
 * Finds the index of an event's item. The ID is used only if the index is missing, because some
 * gateways change the IDs from event to event.
 */
export class ItemIndexes {
  readonly #byId = new Map<string, number>();
  #last = -1;
  /** True if the last item has neither an ID nor a call ID and hasn't ended. */
  #isLastWithoutId = false;

  of({ type, output_index: index, item, item_id: itemId }: JsonObject): unknown {
    const isItem = isObject(item);
    const id = isItem ? idOf(item) : itemId;
    if (typeof index === 'number') {
      // Some servers send deltas for items that they never announced.
      if (isItem || isNonEmptyString(itemId)) this.#remember(index, id);
      return index;
    }
    const known = isNonEmptyString(id) ? this.#byId.get(id) : undefined;
    if (known !== undefined) return known;
    if (isItem) this.#start(id, type !== 'response.output_item.added');
    return Math.max(this.#last, 0);
  }

  /** Returns an item's index, given its position in the final output, which has no gaps. */
  indexInOutput(item: JsonObject, at: number): number {
    const id = idOf(item);
    return (isNonEmptyString(id) ? this.#byId.get(id) : undefined) ?? at;
  }

  /** Starts a new item, unless the event only ends the last item and neither of them has an ID. */
  #start(id: unknown, isEnd: boolean): void {
    const isAnother = isNonEmptyString(id) || !isEnd || !this.#isLastWithoutId;
    this.#isLastWithoutId = !isNonEmptyString(id) && !isEnd;
    if (isAnother) this.#remember(this.#last + 1, id);
  }

  /** Stores only the first ID of each index. */
  #remember(index: number, id: unknown): void {
    if (index <= this.#last || this.#byId.size >= outputItemsMax) return;
    this.#last = index;
    if (isNonEmptyString(id)) this.#byId.set(id, index);
  }
}

/** Earlier versions of llama.cpp send a call with a `call_id` but no ID. */
function idOf({ id, call_id: call }: JsonObject): unknown {
  return isNonEmptyString(id) ? id : call;
}
