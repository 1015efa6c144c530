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

/** What was told of one item of the output. */
interface Told {
  /** As it was announced. A call is told with its arguments: words may come before them. */
  announced: Fields | undefined;
  /** The number of its call; undefined until it is told as one. */
  call: number | undefined;
  /** Its text, thought, refusal or arguments came in pieces. */
  hasPieces: boolean;
  /** How much of its arguments was told, and whether that is all of them. */
  argumentsLength: number;
  readonly argumentsEnd: JsonEnd;
  isDone: boolean;
  /** Where its text, or the part being told, begins in the text of the answer. */
  start: number;
}

const imageTypes: ReadonlyMap<unknown, string> = new Map([
  ['jpeg', 'image/jpeg'],
  ['webp', 'image/webp'],
]);

/** Calls that are the client's to answer; all others the provider answers itself. */
const callTypes: ReadonlySet<unknown> = new Set(['function_call', 'custom_tool_call']);

const betweenMessages = '\n\n';

/** As JSON: of a call without any, some servers say nothing. */
export function argumentsOf({ type, arguments: json, input }: Fields): string {
  if (type === 'custom_tool_call') return freeFormArguments(textOf(input));
  return isText(json) ? json : JSON.stringify(fieldsOf(json));
}

/** Tells the items of an output, piece by piece or whole, each word once. */
export class ItemTeller {
  readonly #to: AnswerListener;
  readonly #told = new Map<unknown, Told>();
  readonly #places = new ItemPlaces();
  #calls = 0;
  #announced = 0;
  #namesLength = 0;
  #textLength = 0;
  /** The message whose text was told last, and whether more could follow right behind it. */
  #speaking: Told | undefined;
  #isApart = true;

  constructor(to: AnswerListener) {
    this.#to = to;
  }

  get hasCalls(): boolean {
    return this.#calls > 0;
  }

  /** What comes from here on cannot be told. */
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

  /** Some servers announce a call and say no more of it: then it has no arguments. */
  end(): void {
    for (const told of this.#told.values()) {
      const call = told.hasPieces || told.isDone ? undefined : this.#callOf(told);
      if (call === undefined) continue;
      told.isDone = true;
      this.#to.toolArguments(call, '{}');
    }
  }

  /** Some servers say them here only. */
  #takeArguments(place: unknown, json: unknown): void {
    const told = this.#told.get(place);
    if (told !== undefined && !told.isDone && isText(json)) this.#tellRest(told, json);
  }

  /** Some servers break off the pieces, and only what is whole has the rest. */
  #tellRest(told: Told, json: string): void {
    const rest = told.argumentsEnd.isOver ? '' : json.slice(told.argumentsLength);
    if (rest !== '') this.#tellArguments(told, rest);
  }

  /** A call that was never announced is told with its whole item. */
  #tellArguments(told: Told, json: string): void {
    const call = this.#callOf(told);
    if (call === undefined) return;
    told.hasPieces = true;
    told.argumentsLength += json.length;
    told.argumentsEnd.push(json);
    this.#to.toolArguments(call, json);
  }

  /** The whole output, as far as it is not told yet. */
  tellOutput(output: unknown): void {
    for (const [at, item] of itemsOf(output).entries()) {
      if (isObject(item)) this.#tellItem(this.#places.ofWhole(item, at), item);
    }
  }

  /** A whole item: what has been told of it already is passed over. */
  #tellItem(place: unknown, item: Fields): void {
    const told = this.#toldAt(place);
    if (told === undefined || told.isDone) return;
    told.isDone = true;
    this.#callOf(told, isText(item.name) ? item : (told.announced ?? item));
    if (item.type === 'message') this.#tellMessage(item, told);
    if (item.type === 'reasoning') this.#tellReasoning(item, told);
    if (item.type === 'image_generation_call') this.#tellImage(item);
    this.#tellRest(told, argumentsOf(item));
  }

  /** Kept is what a call is told by, and of no more calls than anybody could run. */
  #announce(place: unknown, { type, name, call_id }: Fields): void {
    const told = this.#toldAt(place);
    if (told === undefined || !callTypes.has(type)) return;
    told.announced = { type, name, call_id };
    this.#announced += 1;
    this.#namesLength += lengthOf(name) + lengthOf(call_id);
    if (this.#announced <= callsPerAnswerMax && this.#namesLength <= callNamesLengthMax) return;
    throw new UnusableAnswer('more tool calls than anybody could run');
  }

  /** The number of the call that an item is, which is told here first; undefined if it is none. */
  #callOf(told: Told, item = told.announced): number | undefined {
    if (told.call !== undefined || item === undefined) return told.call;
    if (!callTypes.has(item.type)) return undefined;
    // Until it is whole, its name may follow.
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
        // The text is told when it is whole; a client that waits for it hears that it has begun.
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

  /** Models say what they will do in a message of its own: the next does not run into it. */
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

  /** A picture by the provider's own tool. Its drafts come in other events, and are ignored. */
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

  /** `from` is where the text begins that the places of the source are counted in. */
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
