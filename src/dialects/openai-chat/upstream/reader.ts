import type { AnswerSink, FinishReason } from '../../../core/answer.ts';
import { bufferedArgumentsMax } from '../../../core/bounds.ts';
import {
  fieldsOf,
  isNonEmptyString,
  isObject,
  itemsOf,
  type JsonObject,
  objectsIn,
  textOf,
} from '../../../core/json.ts';
import type { SseMessage, StreamReader, UpstreamDialect, UpstreamFailure } from '../../dialect.ts';
import { MalformedAnswer } from '../../failure.ts';
import { freeFormArguments } from '../../normalize/requests/tools.ts';
import { emitImageUrl } from '../../normalize/responses/answer-metrics.ts';
import { newCallId } from '../../normalize/responses/identity.ts';
import { JsonEndScanner } from '../../normalize/responses/tool-arguments.ts';
import { prefixEncrypted } from '../../normalize/signature.ts';
import { ChunkParser, noOutputFailure, type ParsedChunk, parseReply } from '../answer-parser.ts';
import { ChunkNormalizer } from '../chunk.ts';
import { charactersIn, normalizeChoice, reasoningIn, stopSequenceIn } from '../message.ts';
import { googleSignature } from '../tool-calls.ts';
import { writeBody } from './chat-body.ts';
import { passChat } from './request.ts';

/** Translates between OpenAI-style upstreams and clients of other dialects. */
export const openAiUpstream: UpstreamDialect = {
  parameters: 'everything',
  toolNameLengthMax: 64,
  requiresInlineContent: false,
  defaultThinking: () => null,
  write(prompt, target) {
    const hasCacheKeys = target.quirks.tenant_cache_field === 'prompt_cache_key';
    const { body, dropped } = writeBody(prompt, target.isReasoningModel, hasCacheKeys);
    const request = passChat({ body, source: null }, target);
    return { ...request, dropped: [...dropped, ...(request.dropped ?? [])] };
  },
  readStream: (sink, toolNames) => new OpenAiStreamReader(sink, toolNames),
  readReply: readFullReply,
};

/** Reads the stream of an OpenAI-style upstream for a client of another dialect. */
export class OpenAiStreamReader implements StreamReader {
  /** The last choice that had a finish reason. */
  #finishedChoice: JsonObject | undefined;
  readonly #sink: AnswerSink;
  readonly #emitter: AnswerEmitter;
  readonly #normalizer: ChunkNormalizer;
  readonly #parser: ChunkParser;

  constructor(sink: AnswerSink, toolNames?: readonly string[]) {
    this.#sink = sink;
    this.#emitter = new AnswerEmitter(sink);
    this.#normalizer = new ChunkNormalizer(toolNames);
    this.#parser = new ChunkParser(this.#normalizer);
  }

  get finished(): boolean {
    return this.#parser.finished;
  }

  get ended(): boolean {
    return this.#parser.isTerminated;
  }

  push(message: SseMessage): UpstreamFailure | undefined {
    const parsed = this.#parser.parse(message);
    if (parsed.kind === 'chunk' || parsed.kind === 'terminator') this.#readChunk(parsed);
    if (parsed.kind === 'terminator') this.#emitMissing();
    // Usage follows the content that it counts.
    if (parsed.hasUsage) this.#emitUsage();
    return parsed.kind === 'failed' ? parsed.failure : undefined;
  }

  #readChunk({ chunk, choices }: ParsedChunk): void {
    this.#normalizer.normalize(chunk, choices);
    // Only OpenAI's own clients can receive more than one choice.
    for (const choice of choices) if (choice.index === 0) this.#readChoice(choice);
  }

  #readChoice(choice: JsonObject): void {
    const { delta, finish_reason: reason } = choice;
    const deltaFields = fieldsOf(delta);
    // Some servers write a finish reason into every chunk, so content may follow it.
    if (this.#finishedChoice !== undefined && charactersIn(deltaFields) === 0) return;
    this.#parser.trackChoice(choice);
    this.#emitter.emit(deltaFields);
    if (typeof reason !== 'string') return;
    this.#finishedChoice = choice;
    this.#emitter.finish(reason, stopSequenceIn(choice));
  }

  /**
   * Emits the missing parts of tool calls once the terminator has arrived. A finish reason in the
   * same chunk as a fragment of a call may not be the end, so the missing parts can't be emitted
   * earlier.
   */
  #emitMissing(): void {
    const choice = this.#finishedChoice;
    const missing = choice ? this.#normalizer.complete(0) : [];
    if (missing.length > 0) this.#readChoice({ ...choice, delta: { tool_calls: missing } });
  }

  #emitUsage(): void {
    const { usage, isPromptOnly: isEstimate } = this.#parser;
    if (usage !== undefined) this.#sink.usage?.(usage, isEstimate);
  }
}

/** Emits a non-streaming response. Returns a failure if the response is one. */
export function readFullReply(text: string, sink: AnswerSink): UpstreamFailure | undefined {
  const parsed = parseReply(text);
  if (!parsed.ok) return parsed.failure;
  const { choices, usage, isPromptOnly } = parsed.value;
  const first = choices.find(({ index }) => index === 0) ?? choices[0] ?? {};
  const { message, characters, finishReason } = normalizeChoice(first, 0);
  if (characters === 0 && finishReason === null) return noOutputFailure();
  const emitter = new AnswerEmitter(sink);
  emitter.emit(message);
  emitter.finish(finishReason, stopSequenceIn(first));
  if (usage) sink.usage?.(usage, isPromptOnly);
  return undefined;
}

const finishReasons: ReadonlyMap<string, FinishReason> = new Map([
  ['stop', 'stop'],
  ['length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['content_filter', 'content_filter'],
]);

/** The key of a `function_call`. Older servers send one, in fragments, instead of tool calls. */
const legacyCallKey = 'function_call';

interface EmittedCall {
  /** False until the name is known or, for a free-form call, until the answer ends. */
  isEmitted: boolean;
  /**
   * Numbers are assigned in the order of emission: clients keep calls in an array without holes.
   */
  number: number;
  readonly isCustom: boolean;
  readonly end: JsonEndScanner;
  id: string;
  name: string;
  bufferedArguments: string;
}

/** The fields of a message that have content other than calls. */
const contentFields = [
  'reasoning',
  'reasoning_content',
  'reasoning_details',
  'content',
  'refusal',
  'annotations',
  'images',
] as const;

/** Emits normalized messages and deltas as neutral events. */
export class AnswerEmitter {
  readonly #sink: AnswerSink;
  readonly #calls = new Map<unknown, EmittedCall>();
  #emittedCalls = 0;
  #bufferedLength = 0;
  /** Emitted calls whose arguments are incomplete. */
  readonly #unfinished = new Set<EmittedCall>();
  /**
   * Content received while calls are unfinished. It is held, because content ends a call in other
   * dialects.
   */
  #held: JsonObject[] = [];
  #heldLength = 0;

  constructor(sink: AnswerSink) {
    this.#sink = sink;
  }

  emit(delta: JsonObject): void {
    const mustWait = this.#unfinished.size > 0;
    if (mustWait) this.#hold(delta);
    else this.#emitContent(delta);
    const calls = itemsOf(delta.tool_calls);
    for (const [index, call] of calls.entries()) if (isObject(call)) this.#emitCall(call, index);
    const { function_call: functionCall } = delta;
    // If `tool_calls` is also present, `function_call` only repeats its first call.
    if (isObject(functionCall) && calls.length === 0)
      this.#emitCall({ index: legacyCallKey, id: newCallId(), function: functionCall }, 0);
    if (!mustWait) this.#emitImages(delta);
    else if (this.#unfinished.size === 0) this.#emitHeld();
  }

  #hold(delta: JsonObject): void {
    if (!contentFields.some((name) => delta[name])) return;
    const fields = contentFields.map((name) => [name, delta[name]]);
    this.#held.push(Object.fromEntries(fields));
    this.#heldLength += JSON.stringify(fields).length;
    // After this much content, the calls must have ended, even if their arguments look incomplete.
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

  #emitContent(delta: JsonObject): void {
    this.#emitReasoning(delta);
    if (isNonEmptyString(delta.content)) this.#sink.text(delta.content);
    if (isNonEmptyString(delta.refusal)) this.#sink.refusal(delta.refusal);
    // Emit annotations before calls: they belong to the text, which ends where a call starts.
    for (const annotation of itemsOf(delta.annotations)) this.#emitAnnotation(annotation);
  }

  #emitImages({ images }: JsonObject): void {
    for (const image of itemsOf(images)) this.#emitImage(image);
  }

  /** Ends the answer. `word` is the upstream's finish reason, or null if it sent none. */
  finish(word: string | null, stopSequence: string | null = null): void {
    this.#emitHeld();
    for (const call of this.#calls.values()) this.#open(call);
    if (word === null) return;
    const reason = finishReasons.get(word);
    if (reason === undefined) this.#sink.finish('stop', null, word);
    else if (reason !== 'stop' || stopSequence === null) this.#sink.finish(reason, null);
    else this.#sink.finish('stop_sequence', stopSequence);
  }

  #emitReasoning({
    reasoning,
    reasoning_content: content,
    reasoning_details: list,
  }: JsonObject): void {
    const name = isNonEmptyString(content) ? 'reasoning_content' : undefined;
    const details = objectsIn(list);
    // A signature is valid only for its own block. If the details contain all of `reasoning`,
    // emit each block with its own signature.
    const areSeparate = details.length > 0 && details.map(reasoningIn).join('') === reasoning;
    if (isNonEmptyString(reasoning) && !areSeparate) this.#sink.reasoning(reasoning, name);
    for (const detail of details) {
      const { type, signature, data, format } = detail;
      const text = areSeparate ? reasoningIn(detail) : '';
      if (text !== '') this.#sink.reasoning(text, name);
      if (isNonEmptyString(signature)) this.#sink.reasoningSignature(signature);
      if (type === 'reasoning.encrypted' && isNonEmptyString(data)) {
        this.#sink.redactedReasoning(prefixEncrypted(format, data));
      }
    }
  }

  #emitCall(call: JsonObject, at: number): void {
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
      bufferedArguments: '',
    };
    if (!known) {
      this.#calls.set(key, open);
      const signature = googleSignature(call);
      if (signature) this.#sink.reasoningSignature(signature);
    }
    if (open.name === '' && isNonEmptyString(body.name)) open.name = body.name;
    if (open.name !== '' && !open.isCustom) this.#open(open);
    if (!isNonEmptyString(body.arguments)) return;
    if (open.isEmitted) this.#emitArguments(open, body.arguments);
    else this.#bufferArguments(open, body.arguments);
  }

  #bufferArguments(call: EmittedCall, json: string): void {
    call.bufferedArguments += json;
    this.#bufferedLength += json.length;
    if (this.#bufferedLength <= bufferedArgumentsMax) return;
    throw new MalformedAnswer('tool call arguments without a tool name');
  }

  #open(call: EmittedCall): void {
    if (call.isEmitted) return;
    call.isEmitted = true;
    call.number = this.#emittedCalls;
    this.#emittedCalls += 1;
    this.#unfinished.add(call);
    this.#sink.toolCall(call.number, call.id, call.name);
    const json = call.isCustom ? freeFormArguments(call.bufferedArguments) : call.bufferedArguments;
    if (json !== '') this.#emitArguments(call, json);
  }

  #emitArguments(call: EmittedCall, json: string): void {
    this.#sink.toolArguments(call.number, json);
    call.end.push(json);
    if (call.end.isComplete) this.#unfinished.delete(call);
  }

  #emitAnnotation(annotation: unknown): void {
    const source = fieldsOf(annotation).url_citation;
    if (!isObject(source) || !isNonEmptyString(source.url)) return;
    const { url, title, content, start_index: start, end_index: end } = source;
    this.#sink.citation({
      url,
      title: textOf(title),
      quote: textOf(content),
      // An empty range means that the position isn't known.
      range:
        typeof start === 'number' && typeof end === 'number' && end > start ? { start, end } : null,
    });
  }

  #emitImage(image: unknown): void {
    const url = textOf(fieldsOf(fieldsOf(image).image_url).url);
    const [, mediaType, data] = /^data:([\w/+.-]+);base64,(.+)$/s.exec(url) ?? [];
    if (mediaType && data) this.#sink.image(mediaType, data);
    else if (/^https?:/i.test(url)) emitImageUrl(url, this.#sink);
  }
}
