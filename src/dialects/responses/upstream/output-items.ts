import type { AnswerSink } from '../../../core/answer.ts';
import {
  outputItemsMax,
  toolCallNamesLengthMax,
  toolCallsPerAnswerMax,
} from '../../../core/bounds.ts';
import {
  type Fields,
  fieldsOf,
  isObject,
  isText,
  itemsOf,
  lengthOf,
  objectsIn,
  textOf,
} from '../../../core/json.ts';
import { MalformedAnswer } from '../../failure.ts';
import { freeFormArguments } from '../../normalize/requests/tools.ts';
import { codePointLength } from '../../normalize/responses/counts.ts';
import { newCallId } from '../../normalize/responses/identity.ts';
import { JsonEndScanner } from '../../normalize/responses/tool-arguments.ts';
import { joinSignature } from '../reasoning-signature.ts';

/** What was told so far of one item of the output. */
interface ItemState {
  /** A call as announced. It is told only with its arguments: other words may come before. */
  announced: Fields | undefined;
  /** The number of the item's call; undefined until the call is told. */
  call: number | undefined;
  /** The item's text, thought, refusal or arguments came in pieces. */
  hasPieces: boolean;
  /** How much of the arguments was told, and whether their JSON is complete. */
  argumentsLength: number;
  readonly argumentsEnd: JsonEndScanner;
  isDone: boolean;
  /** Where the item's text, or its current part, begins in the text of the whole answer. */
  start: number;
}

const imageTypes: ReadonlyMap<unknown, string> = new Map([
  ['jpeg', 'image/jpeg'],
  ['webp', 'image/webp'],
]);

/** Calls that the client has to answer; the provider answers all others itself. */
const callTypes: ReadonlySet<unknown> = new Set(['function_call', 'custom_tool_call']);

/** Searches that xAI runs itself, but writes as calls of free-form tools with these names. */
const searches: ReadonlySet<unknown> = new Set([
  'x_keyword_search',
  'x_semantic_search',
  'x_thread_fetch',
  'x_user_search',
]);

/** Whether an item is a call that waits for the client. */
export function isClientCall({ type, name }: Fields): boolean {
  return callTypes.has(type) && !(type === 'custom_tool_call' && searches.has(name));
}

const betweenMessages = '\n\n';

/** The arguments as JSON; `{}` for a call whose arguments the server left out. */
export function argumentsOf({ type, arguments: json, input }: Fields): string {
  if (type === 'custom_tool_call') return freeFormArguments(textOf(input));
  return isText(json) ? json : JSON.stringify(fieldsOf(json));
}

/** Tells the items of an output, whole or in pieces, and every word only once. */
export class ItemEmitter {
  readonly #sink: AnswerSink;
  readonly #states = new Map<unknown, ItemState>();
  readonly #indexes = new ItemIndexes();
  #calls = 0;
  #announced = 0;
  #namesLength = 0;
  #textLength = 0;
  /** The message whose text was told last, and whether that text ended with white space. */
  #lastMessage: ItemState | undefined;
  #endsWithSpace = true;

  constructor(sink: AnswerSink) {
    this.#sink = sink;
  }

  get hasCalls(): boolean {
    return this.#calls > 0;
  }

  /** No further item can be told. */
  get isFull(): boolean {
    return this.#states.size === outputItemsMax;
  }

  take(type: string, message: Fields): void {
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
        if (this.#states.get(index)?.hasPieces) this.#sink.reasoning('\n\n');
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
        this.#takeArguments(index, message.arguments);
        return;
      case 'response.custom_tool_call_input.done':
        this.#takeArguments(index, isText(message.input) && freeFormArguments(message.input));
        return;
      default:
        if (isText(delta)) this.#takeDelta(type, index, delta);
    }
  }

  /** Some servers announce a call and send nothing else of it: then it has no arguments. */
  end(): void {
    for (const state of this.#states.values()) {
      const call = state.hasPieces || state.isDone ? undefined : this.#callOf(state);
      if (call === undefined) continue;
      state.isDone = true;
      this.#sink.toolArguments(call, '{}');
    }
  }

  /** Takes the whole arguments: some servers send no pieces before them. */
  #takeArguments(index: unknown, json: unknown): void {
    const state = this.#states.get(index);
    if (state !== undefined && !state.isDone && isText(json)) this.#emitRest(state, json);
  }

  /** Some servers stop sending pieces early: the rest is taken from the whole arguments. */
  #emitRest(state: ItemState, json: string): void {
    const rest = state.argumentsEnd.isComplete ? '' : json.slice(state.argumentsLength);
    if (rest !== '') this.#emitArguments(state, rest);
  }

  /** Does nothing for a call that was not announced: that is told with its whole item. */
  #emitArguments(state: ItemState, json: string): void {
    const call = this.#callOf(state);
    if (call === undefined) return;
    state.hasPieces = true;
    state.argumentsLength += json.length;
    state.argumentsEnd.push(json);
    this.#sink.toolArguments(call, json);
  }

  /** Tells what is new in the whole output. */
  emitOutput(output: unknown): void {
    for (const [at, item] of itemsOf(output).entries()) {
      if (isObject(item)) this.#emitItem(this.#indexes.indexInOutput(item, at), item);
    }
  }

  /** Tells what is new in a whole item. */
  #emitItem(index: unknown, item: Fields): void {
    const state = this.#stateAt(index);
    if (state === undefined || state.isDone) return;
    state.isDone = true;
    // Announced without its name, a search of the provider's own looked like a call.
    if (!isClientCall({ ...state.announced, ...item })) state.announced = undefined;
    this.#callOf(state, isText(item.name) ? item : (state.announced ?? item));
    if (item.type === 'message') this.#emitMessage(item, state);
    if (item.type === 'reasoning') this.#emitReasoning(item, state);
    if (item.type === 'image_generation_call') this.#emitImage(item);
    this.#emitRest(state, argumentsOf(item));
  }

  /** Keeps the fields that a call is told by, and refuses more calls than a client could run. */
  #announce(index: unknown, item: Fields): void {
    const { type, name, call_id } = item;
    const state = this.#stateAt(index);
    if (state === undefined || !isClientCall(item)) return;
    state.announced = { type, name, call_id };
    this.#announced += 1;
    this.#namesLength += lengthOf(name) + lengthOf(call_id);
    if (this.#announced <= toolCallsPerAnswerMax && this.#namesLength <= toolCallNamesLengthMax)
      return;
    throw new MalformedAnswer('more tool calls than anybody could run');
  }

  /** The number of the item's call, telling the call if it is new; undefined for other items. */
  #callOf(state: ItemState, item = state.announced): number | undefined {
    if (state.call !== undefined || item === undefined) return state.call;
    if (!isClientCall(item)) return undefined;
    // A call without a name is not told yet: the name may come with the whole item.
    if (!isText(item.name) && !state.isDone) return undefined;
    state.call = this.#calls;
    this.#calls += 1;
    const id = isText(item.call_id) ? item.call_id : newCallId();
    this.#sink.toolCall(state.call, id, textOf(item.name));
    return state.call;
  }

  #stateAt(index: unknown): ItemState | undefined {
    const known = this.#states.get(index);
    if (known !== undefined || this.isFull) return known;
    const state: ItemState = {
      announced: undefined,
      call: undefined,
      hasPieces: false,
      argumentsLength: 0,
      argumentsEnd: new JsonEndScanner(),
      isDone: false,
      start: this.#textLength,
    };
    this.#states.set(index, state);
    return state;
  }

  #takeDelta(type: string, index: unknown, delta: string): void {
    const state = this.#stateAt(index);
    if (state === undefined || state.isDone) return;
    switch (type) {
      case 'response.output_text.delta':
        this.#beginText(state);
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
        // The text is told when it is whole; until then the client at least hears of the call.
        this.#callOf(state);
        return;
      default:
        return;
    }
    state.hasPieces = true;
  }

  #emitMessage({ content }: Fields, state: ItemState): void {
    if (state.hasPieces) return;
    for (const { text, refusal, annotations } of objectsIn(content)) {
      if (isText(text)) this.#beginText(state);
      const start = this.#textLength;
      if (isText(text)) this.#emitText(text);
      if (isText(refusal)) this.#sink.refusal(refusal);
      for (const note of itemsOf(annotations)) this.#cite(note, start);
    }
  }

  /** Puts an empty line between two messages: models announce in one what they do next. */
  #beginText(state: ItemState): void {
    if (this.#lastMessage !== state && !this.#endsWithSpace) {
      state.start += betweenMessages.length;
      this.#emitText(betweenMessages);
    }
    this.#lastMessage = state;
  }

  #emitText(text: string): void {
    this.#textLength += codePointLength(text);
    this.#endsWithSpace = text.at(-1)?.trim() === '';
    this.#sink.text(text);
  }

  /** Tells a picture of the provider's own tool. Drafts come in other events and are ignored. */
  #emitImage({ result, output_format: format }: Fields): void {
    if (isText(result)) this.#sink.image(imageTypes.get(format) ?? 'image/png', result);
  }

  #emitReasoning(item: Fields, state: ItemState): void {
    const { id, summary, content, encrypted_content: encrypted } = item;
    if (!state.hasPieces) {
      const text = textsIn(summary) || textsIn(content);
      if (text !== '') this.#sink.reasoning(text);
    }
    if (isText(id) && isText(encrypted)) {
      this.#sink.reasoningSignature(joinSignature(id, encrypted));
    }
  }

  /** `from` is where the text begins to which the indexes of the annotation refer. */
  #cite(annotation: unknown, from: number): void {
    if (!isObject(annotation) || !isText(annotation.url)) return;
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
  return texts.filter(isText).join('\n\n');
}

/**
 * Finds the item of the output that an event is about: by its place, and by its id only if the
 * place is left out, because some gateways change the ids from event to event.
 */
export class ItemIndexes {
  readonly #byId = new Map<string, number>();
  #last = -1;
  /** The last item has neither an id nor a call id, and its end has not come yet. */
  #isNameless = false;

  of({ type, output_index: index, item, item_id: of }: Fields): unknown {
    const isItem = isObject(item);
    const id = isItem ? nameOf(item) : of;
    if (typeof index === 'number') {
      // Some servers send deltas of items that they never announced.
      if (isItem || isText(of)) this.#remember(index, id);
      return index;
    }
    const known = isText(id) ? this.#byId.get(id) : undefined;
    if (known !== undefined) return known;
    if (isItem) this.#begin(id, type !== 'response.output_item.added');
    return Math.max(this.#last, 0);
  }

  /** The place of an item in the last event's output; unlike the events, that list has no gaps. */
  indexInOutput(item: Fields, at: number): number {
    const id = nameOf(item);
    return (isText(id) ? this.#byId.get(id) : undefined) ?? at;
  }

  /** Begins a new item, unless this is the end of the last one and neither has an id. */
  #begin(id: unknown, isEnd: boolean): void {
    const isAnother = isText(id) || !isEnd || !this.#isNameless;
    this.#isNameless = !isText(id) && !isEnd;
    if (isAnother) this.#remember(this.#last + 1, id);
  }

  /** Only the first id of each place is kept. */
  #remember(index: number, id: unknown): void {
    if (index <= this.#last || this.#byId.size >= outputItemsMax) return;
    this.#last = index;
    if (isText(id)) this.#byId.set(id, index);
  }
}

/** Earlier versions of llama.cpp give a call no id of its own, only a `call_id`. */
function nameOf({ id, call_id: call }: Fields): unknown {
  return isText(id) ? id : call;
}
