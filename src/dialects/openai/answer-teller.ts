/** Tells the messages and deltas of OpenAI-style upstreams, once mended, in our own words. */
import type { AnswerListener, FinishReason } from '../../core/answer.ts';
import { waitingArgumentsMax } from '../../core/bounds.ts';
import {
  type Fields,
  fieldsOf,
  isObject,
  isText,
  itemsOf,
  objectsIn,
  textOf,
} from '../../core/json.ts';
import { newCallId } from '../answer/answer-ids.ts';
import { tellImageAt } from '../answer/image-link.ts';
import { JsonEnd } from '../answer/json-end.ts';
import { freeFormArguments } from '../ask/tools/free-form.ts';
import { markEncrypted } from '../signature.ts';
import { UnusableAnswer } from '../unusable-answer.ts';
import { googleSignature } from './google-signature.ts';
import { thoughtIn } from './message.ts';

const finishReasons: ReadonlyMap<string, FinishReason> = new Map([
  ['stop', 'stop'],
  ['length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['content_filter', 'content_filter'],
]);

/** Older servers send one `function_call` instead of tool calls, in pieces like theirs. */
const onlyCall = 'function_call';

interface OpenCall {
  /** The listener was told of the call: once its name is known; of a free-form call, at the end. */
  isTold: boolean;
  /** Given in the order in which calls are told: clients keep calls in an array, without holes. */
  number: number;
  readonly isCustom: boolean;
  readonly end: JsonEnd;
  id: string;
  name: string;
  waiting: string;
}

/** The fields with which a message says anything beside its calls. */
const wordNames = [
  'reasoning',
  'reasoning_content',
  'reasoning_details',
  'content',
  'refusal',
  'annotations',
  'images',
] as const;

/** Tells whole messages and the deltas of a stream alike. */
export class AnswerTeller {
  readonly #to: AnswerListener;
  readonly #calls = new Map<unknown, OpenCall>();
  #told = 0;
  #waitingLength = 0;
  /** Calls that were told and whose arguments are not complete yet. */
  readonly #unfinished = new Set<OpenCall>();
  /** Words that came meanwhile. They wait, because in other dialects words would end a call. */
  #held: Fields[] = [];
  #heldLength = 0;

  constructor(to: AnswerListener) {
    this.#to = to;
  }

  tell(words: Fields): void {
    const mustWait = this.#unfinished.size > 0;
    if (mustWait) this.#hold(words);
    else this.#tellWords(words);
    const calls = itemsOf(words.tool_calls);
    for (const [at, call] of calls.entries()) if (isObject(call)) this.#tellCall(call, at);
    const { function_call: only } = words;
    // Beside `tool_calls`, it repeats the first of them for older clients.
    if (isObject(only) && calls.length === 0)
      this.#tellCall({ index: onlyCall, id: newCallId(), function: only }, 0);
    if (!mustWait) this.#tellImages(words);
    else if (this.#unfinished.size === 0) this.#tellHeld();
  }

  #hold(words: Fields): void {
    if (!wordNames.some((name) => words[name])) return;
    const said = wordNames.map((name) => [name, words[name]]);
    this.#held.push(Object.fromEntries(said));
    this.#heldLength += JSON.stringify(said).length;
    // After so many words the calls must have ended, whatever their arguments look like.
    if (this.#heldLength > waitingArgumentsMax) this.#unfinished.clear();
  }

  #tellHeld(): void {
    const held = this.#held;
    this.#held = [];
    this.#heldLength = 0;
    for (const words of held) {
      this.#tellWords(words);
      this.#tellImages(words);
    }
  }

  #tellWords(words: Fields): void {
    this.#tellReasoning(words);
    if (isText(words.content)) this.#to.text(words.content);
    if (isText(words.refusal)) this.#to.refusal(words.refusal);
    // Annotations before calls: they belong to the text, which ends where a call begins.
    for (const annotation of itemsOf(words.annotations)) this.#tellAnnotation(annotation);
  }

  #tellImages({ images }: Fields): void {
    for (const image of itemsOf(images)) this.#tellImage(image);
  }

  /** Ends the answer; `word` is the upstream's finish reason, null where it gave none. */
  finish(word: string | null, stopSequence: string | null = null): void {
    this.#tellHeld();
    for (const call of this.#calls.values()) this.#open(call);
    if (word === null) return;
    const reason = finishReasons.get(word);
    if (reason === undefined) this.#to.finish('stop', null, word);
    else if (reason !== 'stop' || stopSequence === null) this.#to.finish(reason, null);
    else this.#to.finish('stop_sequence', stopSequence);
  }

  #tellReasoning({ reasoning, reasoning_content: same, reasoning_details: list }: Fields): void {
    const name = isText(same) ? 'reasoning_content' : undefined;
    const details = objectsIn(list);
    // A signature proves only the words that it came with: where the details hold all the words of
    // `reasoning`, each thought is told with its own signature.
    const areApart = details.length > 0 && details.map(thoughtIn).join('') === reasoning;
    if (isText(reasoning) && !areApart) this.#to.reasoning(reasoning, name);
    for (const detail of details) {
      const { type, signature, data, format } = detail;
      const thought = areApart ? thoughtIn(detail) : '';
      if (thought !== '') this.#to.reasoning(thought, name);
      if (isText(signature)) this.#to.reasoningSignature(signature);
      if (type === 'reasoning.encrypted' && isText(data)) {
        this.#to.redactedReasoning(markEncrypted(format, data));
      }
    }
  }

  #tellCall(call: Fields, at: number): void {
    const { custom, function: named } = call;
    const isCustom = isObject(custom);
    const body = isCustom ? { ...custom, arguments: custom.input } : fieldsOf(named);
    const key = call.index ?? at;
    const known = this.#calls.get(key);
    const open = known ?? {
      isTold: false,
      number: 0,
      isCustom,
      end: new JsonEnd(),
      id: textOf(call.id),
      name: '',
      waiting: '',
    };
    if (!known) {
      this.#calls.set(key, open);
      const signature = googleSignature(call);
      if (signature) this.#to.reasoningSignature(signature);
    }
    if (open.name === '' && isText(body.name)) open.name = body.name;
    if (open.name !== '' && !open.isCustom) this.#open(open);
    if (!isText(body.arguments)) return;
    if (open.isTold) this.#tellArguments(open, body.arguments);
    else this.#wait(open, body.arguments);
  }

  #wait(call: OpenCall, json: string): void {
    call.waiting += json;
    this.#waitingLength += json.length;
    if (this.#waitingLength <= waitingArgumentsMax) return;
    throw new UnusableAnswer('arguments of tool calls that have no names or no form');
  }

  #open(call: OpenCall): void {
    if (call.isTold) return;
    call.isTold = true;
    call.number = this.#told;
    this.#told += 1;
    this.#unfinished.add(call);
    this.#to.toolCall(call.number, call.id, call.name);
    const json = call.isCustom ? freeFormArguments(call.waiting) : call.waiting;
    if (json !== '') this.#tellArguments(call, json);
  }

  #tellArguments(call: OpenCall, json: string): void {
    this.#to.toolArguments(call.number, json);
    call.end.push(json);
    if (call.end.isOver) this.#unfinished.delete(call);
  }

  #tellAnnotation(annotation: unknown): void {
    const source = fieldsOf(annotation).url_citation;
    if (!isObject(source) || !isText(source.url)) return;
    const { url, title, content, start_index: start, end_index: end } = source;
    this.#to.citation({
      url,
      title: textOf(title),
      quote: textOf(content),
      range: typeof start === 'number' && typeof end === 'number' ? { start, end } : null,
    });
  }

  #tellImage(image: unknown): void {
    const url = textOf(fieldsOf(fieldsOf(image).image_url).url);
    const [, mediaType, data] = /^data:([\w/+.-]+);base64,(.+)$/s.exec(url) ?? [];
    if (mediaType && data) this.#to.image(mediaType, data);
    else if (/^https?:/i.test(url)) tellImageAt(url, this.#to);
  }
}
