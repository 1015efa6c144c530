/**
 * An OpenAI-style stream on its way to an OpenAI client. Nearly every chunk passes as the text it
 * came in, with only its head exchanged: unknown fields and long numbers survive, and it is cheap.
 */
import type { GatewayError } from '../../../core/errors.ts';
import { type Fields, fieldsOf, isObject, objectsIn } from '../../../core/json.ts';
import type {
  ReplyIdentity,
  SettledUsage,
  SseMessage,
  StreamTransform,
  UpstreamFailure,
} from '../../dialect.ts';
import { keepAlive } from '../../events.ts';
import { failureInside, invalidJsonEvent, readErrorObject } from '../../failure.ts';
import { parseExact } from '../../normalize/exact-json.ts';
import { RecordedMetrics } from '../../normalize/responses/answer-metrics.ts';
import {
  ChunkNormalizer,
  isNullChunk,
  isTerminator,
  type SplitFinish,
  splitFinish,
} from '../chunk.ts';
import type { OpenAiClientOptions } from '../client/stream-writer.ts';
import { closingEvents, openAiStreamFormat } from '../client/stream-writer.ts';
import { CustomCalls } from '../client/tool-forms.ts';
import { charactersIn, hideReasoning, isChoiceIndex } from '../message.ts';
import { isPromptAlone, mergeUsage, outputDetailsIn, usageIn } from '../usage.ts';
import { RepeatedChunk } from './repeated-chunk.ts';

/** True if there was any reasoning. */
function hideReasoningIn(choices: readonly Fields[]): boolean {
  let isHidden = false;
  for (const { delta } of choices) if (isObject(delta) && hideReasoning(delta)) isHidden = true;
  return isHidden;
}

/** The words of a choice that has plain words and nothing else; otherwise undefined. */
function plainTextOf({ delta, finish_reason: reason }: Fields = {}) {
  if (typeof reason === 'string' || !isObject(delta)) return undefined;
  const { content, tool_calls: calls } = delta;
  if (typeof content !== 'string' || (calls !== undefined && calls !== null)) return undefined;
  return charactersIn(delta) === content.length ? content : undefined;
}

/** Cannot stand inside a JSON string: its quotes would be escaped there. */
const noUsageYet = ',"usage":null';

export class OpenAiPassThrough implements StreamTransform {
  readonly metrics = new RecordedMetrics();
  started = false;
  /** Nothing more is forwarded: terminator, failure or last words. */
  ended = false;
  readonly #identity: ReplyIdentity;
  readonly #includeUsage: boolean;
  readonly #hidesReasoning: boolean;
  readonly #customCalls: CustomCalls | undefined;
  readonly #normalizer: ChunkNormalizer;
  readonly #repeated = new RepeatedChunk();
  readonly #choices = {
    open: new Set<number>(),
    finished: new Set<number>(),
    /** Finish reasons that came beside words: told once it is certain that no more words follow. */
    pending: new Map<number, Fields>(),
  };
  /** The terminator came. */
  #isTerminated = false;
  #outputDetails: Fields | undefined;
  /** The text before `"choices"` that this upstream repeats in every chunk, and our text for it. */
  #upstreamHead = '';
  #ownHead = '';

  constructor(
    identity: ReplyIdentity,
    {
      includeUsage,
      hidesReasoning = false,
      usesLegacyFunctions = false,
      customTools,
      toolNames,
    }: OpenAiClientOptions,
  ) {
    this.#normalizer = new ChunkNormalizer(toolNames, !usesLegacyFunctions);
    this.#identity = identity;
    this.#includeUsage = includeUsage;
    this.#hidesReasoning = hidesReasoning;
    this.#customCalls = customTools && new CustomCalls(customTools);
  }

  get finished(): boolean {
    const { finished, open } = this.#choices;
    return (
      finished.size > 0 &&
      open.size === 0 &&
      (this.#isTerminated || !this.#normalizer.continuesAfterFinish)
    );
  }

  push({ event, data }: SseMessage): string {
    if (this.ended) return this.#takeLateUsage(data);
    const text = event === null ? this.#repeated.contentOf(data) : undefined;
    if (text !== undefined) {
      this.metrics.outputCharacters += text.length;
      if (this.#choices.open.size === 0) this.#normalizer.continuesAfterFinish = true;
      return this.#repeated.write(text);
    }
    if (isTerminator(data)) {
      this.ended = true;
      this.#isTerminated = true;
      return this.#emitEnds();
    }
    const chunk = parseExact(data);
    if (!isObject(chunk)) return this.#takeGarbage(event, data);
    const isCounted = this.#takeUsage(chunk);
    const failure = event === 'error' ? readErrorObject(chunk) : failureInside(chunk);
    if (failure !== undefined) return this.#break(failure);
    const choices = objectsIn(chunk.choices);
    if (choices.length === 0) return this.#passAside(chunk);
    const plainText = this.#plainTextIn(choices);
    let isChanged = this.#normalizer.normalize(chunk, choices);
    for (const choice of choices) if (this.#takeContent(choice)) isChanged = true;
    if (isCounted) this.metrics.markCounted();
    const split = splitFinish(choices, this.#choices, this.#normalizer);
    for (const choice of choices) this.#takeChoice(choice);
    this.started = true;
    // Counted before it is hidden: what the client does not want to see is paid for all the same.
    const isHidden = this.#hidesReasoning && hideReasoningIn(choices);
    if (split) return this.#rewriteSplit(chunk, split);
    // Usage that is all zeros, a placeholder, is kept from clients like any other until the end.
    const hasUsage = isCounted || (chunk.usage ?? null) !== null;
    if (isHidden || hasUsage) return this.#rewrite(chunk);
    const output = isChanged ? this.#rewrite(chunk) : this.#forward(data, chunk);
    if (plainText !== undefined && plainText === plainTextOf(choices[0])) {
      this.#repeated.learn(data, output, plainText);
    }
    return output;
  }

  close(settled: SettledUsage): string {
    this.ended = true;
    const usageToReport = this.#includeUsage ? settled : null;
    return this.#emitEnds() + closingEvents(this.#identity, usageToReport, this.#outputDetails);
  }

  fail(error: GatewayError): string {
    this.ended = true;
    return openAiStreamFormat.fail(error, this.#identity);
  }

  keepAlive(): string {
    return keepAlive;
  }

  #break(failure: UpstreamFailure): string {
    this.ended = true;
    this.metrics.failure = failure;
    return '';
  }

  #takeGarbage(event: string | null, data: string): string {
    if (event === 'error') return this.#break(readErrorObject(data));
    if (isNullChunk(data)) return '';
    // A connection cut after the finish reason loses at most the usage: the answer is whole.
    return this.finished ? '' : this.#break(invalidJsonEvent(data));
  }

  /**
   * Chunks without choices, as Azure's first or the usage, are not for clients; moderations are.
   */
  #passAside(chunk: Fields): string {
    if (!isObject(chunk.moderation)) return '';
    this.#normalizer.normalize(chunk, []);
    return this.#rewrite(chunk);
  }

  /** Some servers send the usage after their terminator; nothing else is read there. */
  #takeLateUsage(data: string): string {
    const { usage, failure } = this.metrics;
    const chunk = usage === undefined && failure === undefined ? parseExact(data) : undefined;
    if (isObject(chunk)) this.#takeUsage(chunk);
    return '';
  }

  #takeUsage(chunk: Fields): boolean {
    const usage = usageIn(chunk, this.metrics.usage);
    if (usage !== undefined) {
      const merged = mergeUsage(this.metrics.usage, usage);
      this.metrics.usage = merged;
      this.metrics.isEstimate = isPromptAlone(chunk, merged);
      this.#outputDetails = outputDetailsIn(chunk) ?? this.#outputDetails;
    }
    return usage !== undefined;
  }

  /**
   * Counts words as the upstream sends them. True where calls are told in another form than it
   * sent.
   */
  #takeContent({ index, delta, finish_reason: reason }: Fields): boolean {
    const deltaFields = fieldsOf(delta);
    const characters = charactersIn(deltaFields);
    this.metrics.outputCharacters += characters;
    if (!this.#customCalls) return false;
    const calls = objectsIn(deltaFields.tool_calls);
    const mayEnd = typeof reason === 'string';
    // A reason beside a piece of a call need not be the end: then the call goes on waiting.
    const converted = this.#customCalls.convert(
      calls,
      mayEnd && characters + calls.length === 0,
      index,
    );
    const [first] = calls;
    if (converted.length > 0) deltaFields.tool_calls = converted;
    else if (first !== undefined) {
      // An empty piece, because an end beside words is held back until nothing follows.
      deltaFields.tool_calls = mayEnd ? [{ index: first.index, custom: { input: '' } }] : undefined;
    }
    return calls.length + converted.length > 0;
  }

  /**
   * Now nothing more can follow: tells what calls still lack, even where the end of their choice
   * was told before, and then the ends that were held back.
   */
  #emitEnds(): string {
    let ends = '';
    for (const index of this.#choices.finished) ends += this.#emitEnd(index);
    this.#choices.pending.clear();
    return ends;
  }

  #emitEnd(index: number): string {
    const pending = this.#choices.pending.get(index);
    const [choice = { index }] = objectsIn(pending?.choices);
    const missing = this.#normalizer.complete(index, choice.finish_reason);
    const calls = this.#customCalls?.convert(missing, true, index) ?? missing;
    const end = pending ? this.#rewrite(pending) : '';
    if (calls.length === 0) return end;
    const callChoice = { ...choice, delta: { tool_calls: calls }, finish_reason: null };
    return (
      this.#rewrite({ object: 'chat.completion.chunk', ...pending, choices: [callChoice] }) + end
    );
  }

  #takeChoice({ index, finish_reason: reason }: Fields): void {
    if (!isChoiceIndex(index)) return;
    if (typeof reason === 'string') {
      this.#choices.open.delete(index);
      this.#choices.finished.add(index);
      if (index === 0) this.metrics.finishReason = reason;
    } else if (!this.#choices.finished.has(index)) {
      this.#choices.open.add(index);
    }
    this.metrics.hasOpenChoice = this.#choices.open.size > 0;
  }

  /**
   * The words of a chunk with one choice, which has begun before: a first chunk also says who
   * speaks, so it cannot stand for those that follow.
   */
  #plainTextIn(choices: readonly Fields[]): string | undefined {
    const [choice] = choices;
    if (choices.length !== 1 || !isChoiceIndex(choice?.index)) return undefined;
    return this.#choices.open.has(choice.index) ? plainTextOf(choice) : undefined;
  }

  #forward(data: string, chunk: Fields): string {
    const isKnown = this.#upstreamHead !== '' && data.startsWith(this.#upstreamHead);
    // Data of several lines would need several `data:` lines; the event reader leaves only `\n`.
    if ((!isKnown && !this.#learnHead(data, chunk)) || data.includes('\n')) {
      return this.#rewrite(chunk);
    }
    const start = this.#upstreamHead.length;
    if (chunk.usage === undefined) return `data: ${this.#ownHead}${data.slice(start)}\n\n`;
    // Because we ask for usage, OpenAI writes `null` into every chunk; clients see it at the end.
    const at = data.lastIndexOf(noUsageYet);
    if (at < start) return this.#rewrite(chunk);
    const rest = data.slice(start, at) + data.slice(at + noUsageYet.length);
    return `data: ${this.#ownHead}${rest}\n\n`;
  }

  /**
   * Takes the text before `"choices"` as the head only if it parses as the beginning of the chunk,
   * with the same value in every field to be exchanged. Then none of them is repeated after
   * `"choices"`, and the key was not found inside a nested object or a string.
   */
  #learnHead(data: string, chunk: Fields): boolean {
    const key = '"choices"';
    const at = data.indexOf(key);
    const head = parseExact(`${data.slice(0, at)}${key}:0}`);
    if (at === -1 || !isObject(head)) return false;
    if (typeof head.id !== 'string' || typeof head.model !== 'string') return false;
    const mustMatch = ['id', 'model', 'created', 'object', 'provider'];
    if (mustMatch.some((field) => head[field] !== chunk[field])) return false;
    const own = JSON.stringify(this.#sign({ ...head, choices: undefined }));
    this.#upstreamHead = data.slice(0, at) + key;
    this.#ownHead = `${own.slice(0, -1)},${key}`;
    return true;
  }

  /** Puts our names where the upstream's are. */
  #sign(chunk: Fields): Fields {
    chunk.id = this.#identity.id;
    chunk.model = this.#identity.model;
    chunk.created = this.#identity.created;
    if (chunk.provider !== undefined) chunk.provider = this.#identity.provider;
    return chunk;
  }

  #rewriteSplit(chunk: Fields, { content, closed, held }: SplitFinish): string {
    for (const { index } of closed) if (isChoiceIndex(index)) this.#choices.pending.delete(index);
    for (const choice of held) {
      const { index } = choice;
      if (isChoiceIndex(index)) this.#choices.pending.set(index, { ...chunk, choices: [choice] });
    }
    const split = [content, closed].filter((choices) => choices.length > 0);
    return split.map((choices) => this.#rewrite({ ...chunk, choices })).join('');
  }

  #rewrite(chunk: Fields): string {
    chunk.usage = undefined;
    return `data: ${JSON.stringify(this.#sign(chunk))}\n\n`;
  }
}
