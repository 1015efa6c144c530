import type { AnswerListener } from '../../core/answer.ts';
import { callNamesLengthMax, callsPerAnswerMax, outputItemsMax } from '../../core/bounds.ts';
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
import { newCallId } from '../answer/answer-ids.ts';
import { JsonEnd } from '../answer/json-end.ts';
import { pointsIn } from '../answer/points.ts';
import { freeFormArguments } from '../ask/tools/free-form.ts';
import { UnusableAnswer } from '../unusable-answer.ts';
import { ItemPlaces } from './item-places.ts';
import { joinSignature } from './reasoning-signature.ts';

/** What was told so far of one item of the output. */
interface Told {
  /** A call as announced. It is told only with its arguments: other words may come before. */
  announced: Fields | undefined;
  /** The number of the item's call; undefined until the call is told. */
  call: number | undefined;
  /** The item's text, thought, refusal or arguments came in pieces. */
  hasPieces: boolean;
  /** How much of the arguments was told, and whether their JSON is complete. */
  argumentsLength: number;
  readonly argumentsEnd: JsonEnd;
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
export class ItemTeller {
  readonly #to: AnswerListener;
  readonly #told = new Map<unknown, Told>();
  readonly #places = new ItemPlaces();
  #calls = 0;
  #announced = 0;
  #namesLength = 0;
  #textLength = 0;
  /** The message whose text was told last, and whether that text ended with white space. */
  #speaking: Told | undefined;
  #isApart = true;

  constructor(to: AnswerListener) {
    this.#to = to;
  }

  get hasCalls(): boolean {
    return this.#calls > 0;
  }

  /** No further item can be told. */
  get isFull(): boolean {
    return this.#told.size === outputItemsMax;
  }

  take(type: string, message: Fields): void {
    const { item, delta } = message;
    const place = this.#places.of(message);
    switch (type) {
      case 'response.output_item.added':
        if (isObject(item)) this.#announce(place, item);
        return;
      case 'response.output_item.done':
        if (isObject(item)) this.#tellItem(place, item);
        return;
      case 'response.reasoning_summary_part.added':
        // The parts of a summary are paragraphs.
        if (this.#told.get(place)?.hasPieces) this.#to.reasoning('\n\n');
        return;
      case 'response.content_part.added': {
        const told = this.#toldAt(place);
        if (told !== undefined) told.start = this.#textLength;
        return;
      }
      case 'response.output_text.annotation.added':
        this.#cite(message.annotation, this.#told.get(place)?.start ?? 0);
        return;
      case 'response.function_call_arguments.done':
        this.#takeArguments(place, message.arguments);
        return;
      case 'response.custom_tool_call_input.done':
        this.#takeArguments(place, isText(message.input) && freeFormArguments(message.input));
        return;
      default:
        if (isText(delta)) this.#takeDelta(type, place, delta);
    }
  }

  /** Some servers announce a call and send nothing else of it: then it has no arguments. */
  end(): void {
    for (const told of this.#told.values()) {
      const call = told.hasPieces || told.isDone ? undefined : this.#callOf(told);
      if (call === undefined) continue;
      told.isDone = true;
      this.#to.toolArguments(call, '{}');
    }
  }

  /** Takes the whole arguments: some servers send no pieces before them. */
  #takeArguments(place: unknown, json: unknown): void {
    const told = this.#told.get(place);
    if (told !== undefined && !told.isDone && isText(json)) this.#tellRest(told, json);
  }

  /** Some servers stop sending pieces early: the rest is taken from the whole arguments. */
  #tellRest(told: Told, json: string): void {
    const rest = told.argumentsEnd.isOver ? '' : json.slice(told.argumentsLength);
    if (rest !== '') this.#tellArguments(told, rest);
  }

  /** Does nothing for a call that was not announced: that is told with its whole item. */
  #tellArguments(told: Told, json: string): void {
    const call = this.#callOf(told);
    if (call === undefined) return;
    told.hasPieces = true;
    told.argumentsLength += json.length;
    told.argumentsEnd.push(json);
    this.#to.toolArguments(call, json);
  }

  /** Tells what is new in the whole output. */
  tellOutput(output: unknown): void {
    for (const [at, item] of itemsOf(output).entries()) {
      if (isObject(item)) this.#tellItem(this.#places.ofWhole(item, at), item);
    }
  }

  /** Tells what is new in a whole item. */
  #tellItem(place: unknown, item: Fields): void {
    const told = this.#toldAt(place);
    if (told === undefined || told.isDone) return;
    told.isDone = true;
    // Announced without its name, a search of the provider's own looked like a call.
    if (!isClientCall({ ...told.announced, ...item })) told.announced = undefined;
    this.#callOf(told, isText(item.name) ? item : (told.announced ?? item));
    if (item.type === 'message') this.#tellMessage(item, told);
    if (item.type === 'reasoning') this.#tellReasoning(item, told);
    if (item.type === 'image_generation_call') this.#tellImage(item);
    this.#tellRest(told, argumentsOf(item));
  }

  /** Keeps the fields that a call is told by, and refuses more calls than a client could run. */
  #announce(place: unknown, item: Fields): void {
    const { type, name, call_id } = item;
    const told = this.#toldAt(place);
    if (told === undefined || !isClientCall(item)) return;
    told.announced = { type, name, call_id };
    this.#announced += 1;
    this.#namesLength += lengthOf(name) + lengthOf(call_id);
    if (this.#announced <= callsPerAnswerMax && this.#namesLength <= callNamesLengthMax) return;
    throw new UnusableAnswer('more tool calls than anybody could run');
  }

  /** The number of the item's call, telling the call if it is new; undefined for other items. */
  #callOf(told: Told, item = told.announced): number | undefined {
    if (told.call !== undefined || item === undefined) return told.call;
    if (!isClientCall(item)) return undefined;
    // A call without a name is not told yet: the name may come with the whole item.
    if (!isText(item.name) && !told.isDone) return undefined;
    told.call = this.#calls;
    this.#calls += 1;
    const id = isText(item.call_id) ? item.call_id : newCallId();
    this.#to.toolCall(told.call, id, textOf(item.name));
    return told.call;
  }

  #toldAt(place: unknown): Told | undefined {
    const known = this.#told.get(place);
    if (known !== undefined || this.isFull) return known;
    const told: Told = {
      announced: undefined,
      call: undefined,
      hasPieces: false,
      argumentsLength: 0,
      argumentsEnd: new JsonEnd(),
      isDone: false,
      start: this.#textLength,
    };
    this.#told.set(place, told);
    return told;
  }

  #takeDelta(type: string, place: unknown, delta: string): void {
    const told = this.#toldAt(place);
    if (told === undefined || told.isDone) return;
    switch (type) {
      case 'response.output_text.delta':
        this.#beginText(told);
        this.#tellText(delta);
        break;
      case 'response.refusal.delta':
        this.#to.refusal(delta);
        break;
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        this.#to.reasoning(delta);
        break;
      case 'response.function_call_arguments.delta':
        this.#tellArguments(told, delta);
        return;
      case 'response.custom_tool_call_input.delta':
        // The text is told when it is whole; until then the client at least hears of the call.
        this.#callOf(told);
        return;
      default:
        return;
    }
    told.hasPieces = true;
  }

  #tellMessage({ content }: Fields, told: Told): void {
    if (told.hasPieces) return;
    for (const { text, refusal, annotations } of objectsIn(content)) {
      if (isText(text)) this.#beginText(told);
      const start = this.#textLength;
      if (isText(text)) this.#tellText(text);
      if (isText(refusal)) this.#to.refusal(refusal);
      for (const note of itemsOf(annotations)) this.#cite(note, start);
    }
  }

  /** Puts an empty line between two messages: models announce in one what they do next. */
  #beginText(told: Told): void {
    if (this.#speaking !== told && !this.#isApart) {
      told.start += betweenMessages.length;
      this.#tellText(betweenMessages);
    }
    this.#speaking = told;
  }

  #tellText(text: string): void {
    this.#textLength += pointsIn(text);
    this.#isApart = text.at(-1)?.trim() === '';
    this.#to.text(text);
  }

  /** Tells a picture of the provider's own tool. Drafts come in other events and are ignored. */
  #tellImage({ result, output_format: format }: Fields): void {
    if (isText(result)) this.#to.image(imageTypes.get(format) ?? 'image/png', result);
  }

  #tellReasoning(item: Fields, told: Told): void {
    const { id, summary, content, encrypted_content: encrypted } = item;
    if (!told.hasPieces) {
      const text = textsIn(summary) || textsIn(content);
      if (text !== '') this.#to.reasoning(text);
    }
    if (isText(id) && isText(encrypted)) {
      this.#to.reasoningSignature(joinSignature(id, encrypted));
    }
  }

  /** `from` is where the text begins to which the indexes of the annotation refer. */
  #cite(annotation: unknown, from: number): void {
    if (!isObject(annotation) || !isText(annotation.url)) return;
    const { url, title, start_index: start, end_index: end } = annotation;
    const hasRange = typeof start === 'number' && typeof end === 'number';
    this.#to.citation({
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
