import type { AnswerSink, FinishReason } from '../../../core/answer.ts';
import { bufferedArgumentsMax } from '../../../core/bounds.ts';
import {
  type Fields,
  fieldsOf,
  isObject,
  isText,
  itemsOf,
  objectsIn,
  textOf,
} from '../../../core/json.ts';
import type { Usage } from '../../../core/usage.ts';
import type { SseMessage, StreamReader, UpstreamDialect, UpstreamFailure } from '../../dialect.ts';
import {
  failureInside,
  invalidJsonAnswer,
  invalidJsonEvent,
  MalformedAnswer,
  malformed,
  readErrorObject,
} from '../../failure.ts';
import { parseExact } from '../../normalize/exact-json.ts';
import { freeFormArguments } from '../../normalize/requests/tools.ts';
import { emitImageUrl } from '../../normalize/responses/answer-metrics.ts';
import { newCallId } from '../../normalize/responses/identity.ts';
import { JsonEndScanner } from '../../normalize/responses/tool-arguments.ts';
import { markEncrypted } from '../../normalize/signature.ts';
import { ChunkNormalizer, isNullChunk, isTerminator } from '../chunk.ts';
import { charactersIn, noOutput, normalizeChoice, stopSequenceIn, thoughtIn } from '../message.ts';
import { googleSignature } from '../tool-calls.ts';
import { isPromptAlone, mergeUsage, usageIn } from '../usage.ts';
import { writeBody } from './chat-body.ts';
import { passChat } from './request.ts';

/** OpenAI-style upstreams, for clients that speak differently. */
export const openAiUpstream: UpstreamDialect = {
  toolNameLengthMax: 64,
  write(prompt, target) {
    const { body, dropped } = writeBody(prompt, target.isReasoningModel);
    const request = passChat({ body, source: null }, target);
    return { ...request, dropped: [...dropped, ...(request.dropped ?? [])] };
  },
  readStream: (sink, toolNames) => new OpenAiStreamReader(sink, toolNames),
  readReply: readFullReply,
};

/** Answers of OpenAI-style upstreams in our own words. */

export class OpenAiStreamReader implements StreamReader {
  ended = false;
  /** The last choice that had a finish reason. */
  #end: Fields | undefined;
  readonly #sink: AnswerSink;
  readonly #emitter: AnswerEmitter;
  readonly #normalizer: ChunkNormalizer;
  #usage: Usage | undefined;

  constructor(sink: AnswerSink, toolNames?: readonly string[]) {
    this.#sink = sink;
    this.#emitter = new AnswerEmitter(sink);
    this.#normalizer = new ChunkNormalizer(toolNames);
  }

  get finished(): boolean {
    return this.#end !== undefined && (this.ended || !this.#normalizer.continuesAfterFinish);
  }

  push({ event, data }: SseMessage): UpstreamFailure | undefined {
    if (this.ended) return this.#takeLateUsage(data);
    if (isTerminator(data)) {
      this.ended = true;
      this.#emitMissing();
      return undefined;
    }
    const chunk = parseExact(data);
    if (!isObject(chunk)) return this.#takeGarbage(event, data);
    const usage = usageIn(chunk, this.#usage);
    const failure = event === 'error' ? readErrorObject(chunk) : failureInside(chunk);
    if (failure === undefined) this.#takeChoices(chunk);
    // Usage is told after the words that it counts.
    this.#emitUsage(chunk, usage);
    return failure;
  }

  #takeChoices(chunk: Fields): void {
    const choices = objectsIn(chunk.choices);
    this.#normalizer.normalize(chunk, choices);
    // Only clients of OpenAI's dialect can be told of several choices.
    for (const choice of choices) if (choice.index === 0) this.#takeChoice(choice);
  }

  #takeChoice(choice: Fields): void {
    const { delta, finish_reason: reason } = choice;
    const deltaFields = fieldsOf(delta);
    // Some servers write a finish reason into every chunk: a reason is the end only if no words
    // follow.
    if (this.#end !== undefined && charactersIn(deltaFields) === 0) return;
    this.#emitter.emit(deltaFields);
    if (typeof reason !== 'string') return;
    this.#end = choice;
    this.#emitter.finish(reason, stopSequenceIn(choice));
  }

  /** A finish reason beside a piece of a call may not be the end; after the terminator it is. */
  #emitMissing(): void {
    const missing = this.#end ? this.#normalizer.complete(0, this.#end.finish_reason) : [];
    if (missing.length > 0) this.#takeChoice({ ...this.#end, delta: { tool_calls: missing } });
  }

  /** Some servers send the usage after their terminator; nothing else is read there. */
  #takeLateUsage(data: string): undefined {
    const chunk = this.#usage === undefined ? parseExact(data) : undefined;
    if (isObject(chunk)) this.#emitUsage(chunk, usageIn(chunk));
  }

  #emitUsage(chunk: Fields, usage: Usage | undefined): void {
    if (usage === undefined) return;
    this.#usage = mergeUsage(this.#usage, usage);
    this.#sink.usage?.(this.#usage, isPromptAlone(chunk, this.#usage));
  }

  #takeGarbage(event: string | null, data: string): UpstreamFailure | undefined {
    if (event === 'error') return readErrorObject(data);
    if (isNullChunk(data)) return undefined;
    // A connection cut after the finish reason loses at most the usage: the answer is whole.
    return this.finished ? undefined : invalidJsonEvent(data);
  }
}

/** Tells a whole answer; the failure that it is instead, if it is one. */
export function readFullReply(text: string, sink: AnswerSink): UpstreamFailure | undefined {
  const body = parseExact(text);
  if (!isObject(body)) return invalidJsonAnswer(text);
  const failure = failureInside(body);
  if (failure) return failure;
  const choices = objectsIn(body.choices);
  const first = choices.find(({ index }) => index === 0) ?? choices[0] ?? {};
  const { message, characters, finishReason } = normalizeChoice(first, 0);
  if (characters === 0 && finishReason === null) return malformed(noOutput);
  const emitter = new AnswerEmitter(sink);
  emitter.emit(message);
  emitter.finish(finishReason, stopSequenceIn(first));
  const usage = usageIn(body);
  if (usage) sink.usage?.(usage, isPromptAlone(body, usage));
  return undefined;
}

/** Tells the messages and deltas of OpenAI-style upstreams, once mended, in our own words. */

const finishReasons: ReadonlyMap<string, FinishReason> = new Map([
  ['stop', 'stop'],
  ['length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['content_filter', 'content_filter'],
]);

/** Older servers send one `function_call` instead of tool calls, in pieces like theirs. */
const legacyCallKey = 'function_call';

interface OpenCall {
  /** The listener was told of the call: once its name is known; of a free-form call, at the end. */
  isEmitted: boolean;
  /** Given in the order in which calls are told: clients keep calls in an array, without holes. */
  number: number;
  readonly isCustom: boolean;
  readonly end: JsonEndScanner;
  id: string;
  name: string;
  waiting: string;
}

/** The fields with which a message says anything beside its calls. */
const contentFields = [
  'reasoning',
  'reasoning_content',
  'reasoning_details',
  'content',
  'refusal',
  'annotations',
  'images',
] as const;

/** Tells whole messages and the deltas of a stream alike. */
export class AnswerEmitter {
  readonly #sink: AnswerSink;
  readonly #calls = new Map<unknown, OpenCall>();
  #emittedCalls = 0;
  #waitingLength = 0;
  /** Calls that were told and whose arguments are not complete yet. */
  readonly #unfinished = new Set<OpenCall>();
  /** Words that came meanwhile. They wait, because in other dialects words would end a call. */
  #held: Fields[] = [];
  #heldLength = 0;

  constructor(sink: AnswerSink) {
    this.#sink = sink;
  }

  emit(delta: Fields): void {
    const mustWait = this.#unfinished.size > 0;
    if (mustWait) this.#hold(delta);
    else this.#emitContent(delta);
    const calls = itemsOf(delta.tool_calls);
    for (const [at, call] of calls.entries()) if (isObject(call)) this.#emitCall(call, at);
    const { function_call: only } = delta;
    // Beside `tool_calls`, it repeats the first of them for older clients.
    if (isObject(only) && calls.length === 0)
      this.#emitCall({ index: legacyCallKey, id: newCallId(), function: only }, 0);
    if (!mustWait) this.#emitImages(delta);
    else if (this.#unfinished.size === 0) this.#emitHeld();
  }

  #hold(delta: Fields): void {
    if (!contentFields.some((name) => delta[name])) return;
    const fields = contentFields.map((name) => [name, delta[name]]);
    this.#held.push(Object.fromEntries(fields));
    this.#heldLength += JSON.stringify(fields).length;
    // After so many words the calls must have ended, whatever their arguments look like.
    if (this.#heldLength > bufferedArgumentsMax) this.#unfinished.clear();
  }

  #emitHeld(): void {
    const held = this.#held;
    this.#held = [];
    this.#heldLength = 0;
    for (const delta of held) {
      this.#emitContent(delta);
      this.#emitImages(delta);
    }
  }

  #emitContent(delta: Fields): void {
    this.#emitReasoning(delta);
    if (isText(delta.content)) this.#sink.text(delta.content);
    if (isText(delta.refusal)) this.#sink.refusal(delta.refusal);
    // Annotations before calls: they belong to the text, which ends where a call begins.
    for (const annotation of itemsOf(delta.annotations)) this.#emitAnnotation(annotation);
  }

  #emitImages({ images }: Fields): void {
    for (const image of itemsOf(images)) this.#emitImage(image);
  }

  /** Ends the answer; `word` is the upstream's finish reason, null where it gave none. */
  finish(word: string | null, stopSequence: string | null = null): void {
    this.#emitHeld();
    for (const call of this.#calls.values()) this.#open(call);
    if (word === null) return;
    const reason = finishReasons.get(word);
    if (reason === undefined) this.#sink.finish('stop', null, word);
    else if (reason !== 'stop' || stopSequence === null) this.#sink.finish(reason, null);
    else this.#sink.finish('stop_sequence', stopSequence);
  }

  #emitReasoning({ reasoning, reasoning_content: same, reasoning_details: list }: Fields): void {
    const name = isText(same) ? 'reasoning_content' : undefined;
    const details = objectsIn(list);
    // A signature proves only the words that it came with: where the details hold all the words of
    // `reasoning`, each thought is told with its own signature.
    const areSeparate = details.length > 0 && details.map(thoughtIn).join('') === reasoning;
    if (isText(reasoning) && !areSeparate) this.#sink.reasoning(reasoning, name);
    for (const detail of details) {
      const { type, signature, data, format } = detail;
      const thought = areSeparate ? thoughtIn(detail) : '';
      if (thought !== '') this.#sink.reasoning(thought, name);
      if (isText(signature)) this.#sink.reasoningSignature(signature);
      if (type === 'reasoning.encrypted' && isText(data)) {
        this.#sink.redactedReasoning(markEncrypted(format, data));
      }
    }
  }

  #emitCall(call: Fields, at: number): void {
    const { custom, function: named } = call;
    const isCustom = isObject(custom);
    const body = isCustom ? { ...custom, arguments: custom.input } : fieldsOf(named);
    const key = call.index ?? at;
    const known = this.#calls.get(key);
    const open = known ?? {
      isEmitted: false,
      number: 0,
      isCustom,
      end: new JsonEndScanner(),
      id: textOf(call.id),
      name: '',
      waiting: '',
    };
    if (!known) {
      this.#calls.set(key, open);
      const signature = googleSignature(call);
      if (signature) this.#sink.reasoningSignature(signature);
    }
    if (open.name === '' && isText(body.name)) open.name = body.name;
    if (open.name !== '' && !open.isCustom) this.#open(open);
    if (!isText(body.arguments)) return;
    if (open.isEmitted) this.#emitArguments(open, body.arguments);
    else this.#wait(open, body.arguments);
  }

  #wait(call: OpenCall, json: string): void {
    call.waiting += json;
    this.#waitingLength += json.length;
    if (this.#waitingLength <= bufferedArgumentsMax) return;
    throw new MalformedAnswer('arguments of tool calls that have no names or no form');
  }

  #open(call: OpenCall): void {
    if (call.isEmitted) return;
    call.isEmitted = true;
    call.number = this.#emittedCalls;
    this.#emittedCalls += 1;
    this.#unfinished.add(call);
    this.#sink.toolCall(call.number, call.id, call.name);
    const json = call.isCustom ? freeFormArguments(call.waiting) : call.waiting;
    if (json !== '') this.#emitArguments(call, json);
  }

  #emitArguments(call: OpenCall, json: string): void {
    this.#sink.toolArguments(call.number, json);
    call.end.push(json);
    if (call.end.isComplete) this.#unfinished.delete(call);
  }

  #emitAnnotation(annotation: unknown): void {
    const source = fieldsOf(annotation).url_citation;
    if (!isObject(source) || !isText(source.url)) return;
    const { url, title, content, start_index: start, end_index: end } = source;
    this.#sink.citation({
      url,
      title: textOf(title),
      quote: textOf(content),
      range: typeof start === 'number' && typeof end === 'number' ? { start, end } : null,
    });
  }

  #emitImage(image: unknown): void {
    const url = textOf(fieldsOf(fieldsOf(image).image_url).url);
    const [, mediaType, data] = /^data:([\w/+.-]+);base64,(.+)$/s.exec(url) ?? [];
    if (mediaType && data) this.#sink.image(mediaType, data);
    else if (/^https?:/i.test(url)) emitImageUrl(url, this.#sink);
  }
}
