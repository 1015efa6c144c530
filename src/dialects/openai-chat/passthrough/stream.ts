/**
 * Passes an OpenAI-style stream to an OpenAI client. In nearly every chunk, only the first fields
 * are replaced, and the rest is forwarded as the upstream wrote it. This keeps unknown fields and
 * long numbers intact and costs little.
 */
import type { GatewayError } from '../../../core/errors.ts';
import { fieldsOf, isObject, type JsonObject, objectsIn } from '../../../core/json.ts';
import type {
  ReplyIdentity,
  SettledUsage,
  SseMessage,
  StreamFormat,
  StreamTransform,
} from '../../dialect.ts';
import { keepAlive } from '../../event-stream.ts';
import { parseExact } from '../../normalize/exact-json.ts';
import { RecordedMetrics } from '../../normalize/responses/answer-metrics.ts';
import { ChunkParser, type ParsedChunk } from '../answer-parser.ts';
import { ChunkNormalizer, type SplitFinish, splitFinish } from '../chunk.ts';
import type { OpenAiClientOptions } from '../client/reply-writer.ts';
import { closingEvents, openAiStreamFormat } from '../client/stream-writer.ts';
import { CustomCalls } from '../client/tool-formats.ts';
import { charactersIn, hideReasoning, isChoiceIndex } from '../message.ts';
import { RepeatedChunk } from './repeated-chunk.ts';

/** Removes the reasoning from each delta. Returns true if there was any. */
function hideReasoningIn(choices: readonly JsonObject[]): boolean {
  let isHidden = false;
  for (const { delta } of choices) if (isObject(delta) && hideReasoning(delta)) isHidden = true;
  return isHidden;
}

/** Returns the text of a choice that contains nothing but text, or undefined. */
function plainTextOf({ delta, finish_reason: reason }: JsonObject = {}) {
  if (typeof reason === 'string' || !isObject(delta)) return undefined;
  const { content, tool_calls: calls } = delta;
  if (typeof content !== 'string' || (calls !== undefined && calls !== null)) return undefined;
  return charactersIn(delta) === content.length ? content : undefined;
}

/** This can't occur inside a JSON string, where its quotes would be escaped. */
const noUsageYet = ',"usage":null';

export class OpenAiPassThrough implements StreamTransform {
  readonly metrics = new RecordedMetrics();
  started = false;
  /**
   * Set after the terminator, a failure, or the gateway's closing events. Nothing more is
   * forwarded.
   */
  ended = false;
  readonly #identity: ReplyIdentity;
  readonly #includeUsage: boolean;
  readonly #format: StreamFormat;
  readonly #hidesReasoning: boolean;
  readonly #customCalls: CustomCalls | undefined;
  readonly #normalizer: ChunkNormalizer;
  readonly #parser: ChunkParser;
  readonly #repeated = new RepeatedChunk();
  /** Finish chunks that arrived with content, held until no more content can follow. */
  readonly #pending = new Map<number, JsonObject>();
  /**
   * The text before `"choices"` that the upstream repeats in every chunk, and the version sent to
   * the client.
   */
  #upstreamHead = '';
  #clientHead = '';

  constructor(
    identity: ReplyIdentity,
    {
      includeUsage,
      hidesReasoning = false,
      usesLegacyFunctions = false,
      customTools,
      toolNames,
      usesTextCodes = false,
    }: OpenAiClientOptions,
  ) {
    this.#normalizer = new ChunkNormalizer(toolNames, !usesLegacyFunctions);
    this.#parser = new ChunkParser(this.#normalizer);
    this.#identity = identity;
    this.#includeUsage = includeUsage;
    this.#format = openAiStreamFormat({ usesTextCodes });
    this.#hidesReasoning = hidesReasoning;
    this.#customCalls = customTools && new CustomCalls(customTools);
  }

  get finished(): boolean {
    return this.#parser.finished;
  }

  push(message: SseMessage): string {
    if (this.ended) return '';
    const { event, data } = message;
    const text = event === null ? this.#repeated.contentOf(data) : undefined;
    if (text !== undefined) {
      this.metrics.outputCharacters += text.length;
      if (this.#parser.choices.open.size === 0) this.#normalizer.continuesAfterFinish = true;
      return this.#repeated.write(text);
    }
    const parsed = this.#parser.parse(message);
    if (parsed.hasUsage) this.#recordUsage();
    switch (parsed.kind) {
      case 'chunk':
        return this.#transformChunk(parsed, data);
      case 'failed':
        this.ended = true;
        this.metrics.failure = parsed.failure;
        return '';
      case 'terminator': {
        this.ended = true;
        const finish = parsed.choices.length > 0 ? this.#transformChunk(parsed, '') : '';
        return finish + this.#emitFinishChunks();
      }
      case 'ignored':
        return '';
    }
  }

  close(settled: SettledUsage): string {
    this.ended = true;
    const usageToReport = this.#includeUsage ? settled : null;
    const { outputDetails } = this.#parser;
    return this.#emitFinishChunks() + closingEvents(this.#identity, usageToReport, outputDetails);
  }

  fail(error: GatewayError): string {
    this.ended = true;
    return this.#format.fail(error, this.#identity);
  }

  keepAlive(): string {
    return keepAlive;
  }

  #recordUsage(): void {
    this.metrics.usage = this.#parser.usage;
    this.metrics.isEstimate = this.#parser.isPromptOnly;
  }

  #transformChunk({ chunk, choices, hasUsage }: ParsedChunk, data: string): string {
    if (choices.length === 0) return this.#rewriteModeration(chunk);
    const plainText = this.#plainTextIn(choices);
    let isChanged = this.#normalizer.normalize(chunk, choices);
    for (const choice of choices) if (this.#countAndConvert(choice)) isChanged = true;
    // A usage report includes the content of its own chunk.
    if (hasUsage) this.metrics.markCounted();
    const { open, finished } = this.#parser.choices;
    const states = { open, finished, pending: this.#pending };
    const split = splitFinish(choices, states, this.#normalizer);
    for (const choice of choices) this.#trackChoice(choice);
    this.started = true;
    // Reasoning is hidden only after it is counted, because hidden reasoning is billed too.
    const isHidden = this.#hidesReasoning && hideReasoningIn(choices);
    if (split) return this.#rewriteSplit(chunk, split);
    // Clients get usage only at the end, so a placeholder of zeros is also removed.
    const hasUsageField = hasUsage || (chunk.usage ?? null) !== null;
    if (isHidden || hasUsageField) return this.#rewrite(chunk);
    const output = isChanged ? this.#rewrite(chunk) : this.#forward(data, chunk);
    if (plainText !== undefined && plainText === plainTextOf(choices[0])) {
      this.#repeated.learn(data, output, plainText);
    }
    return output;
  }

  /**
   * Drops a chunk without choices, such as usage or Azure's first chunk, unless it has `moderation`
   * results.
   */
  #rewriteModeration(chunk: JsonObject): string {
    if (!isObject(chunk.moderation)) return '';
    this.#normalizer.normalize(chunk, []);
    return this.#rewrite(chunk);
  }

  /**
   * Counts the content of a choice and converts calls of custom tools back to the client's format.
   * Returns true if calls were changed.
   */
  #countAndConvert({ index, delta, finish_reason: reason }: JsonObject): boolean {
    const deltaFields = fieldsOf(delta);
    const characters = charactersIn(deltaFields);
    this.metrics.outputCharacters += characters;
    if (!this.#customCalls) return false;
    const calls = objectsIn(deltaFields.tool_calls);
    const mayEnd = typeof reason === 'string';
    // A finish reason in the same chunk as content may not be the end, so the input stays buffered.
    const converted = this.#customCalls.convert(
      calls,
      mayEnd && characters + calls.length === 0,
      index,
    );
    const [first] = calls;
    if (converted.length > 0) deltaFields.tool_calls = converted;
    else if (first !== undefined) {
      // The chunk needs some content, or its finish reason would be sent before the input.
      deltaFields.tool_calls = mayEnd ? [{ index: first.index, custom: { input: '' } }] : undefined;
    }
    return calls.length + converted.length > 0;
  }

  /**
   * Writes the held finish chunks and the missing parts of tool calls, even for choices whose
   * finish chunk was already sent. Called when nothing more can follow.
   */
  #emitFinishChunks(): string {
    let output = '';
    for (const index of this.#parser.choices.finished) output += this.#emitFinishChunk(index);
    this.#pending.clear();
    return output;
  }

  #emitFinishChunk(index: number): string {
    const pending = this.#pending.get(index);
    const [choice = { index }] = objectsIn(pending?.choices);
    choice.finish_reason = this.#normalizer.finishReason(index);
    const missing = this.#normalizer.complete(index);
    const calls = this.#customCalls?.convert(missing, true, index) ?? missing;
    const end = pending ? this.#rewrite(pending) : '';
    if (calls.length === 0) return end;
    const callChoice = { ...choice, delta: { tool_calls: calls }, finish_reason: null };
    return (
      this.#rewrite({ object: 'chat.completion.chunk', ...pending, choices: [callChoice] }) + end
    );
  }

  #trackChoice(choice: JsonObject): void {
    this.#parser.trackChoice(choice);
    if (choice.index === 0) this.metrics.finishReason = this.#normalizer.finishReason(0);
    this.metrics.hasOpenChoice = this.#parser.choices.open.size > 0;
  }

  /**
   * Returns the text of a chunk that has one choice with nothing but text. The first chunk of a
   * choice is excluded, because it also has the role, which later chunks don't repeat.
   */
  #plainTextIn(choices: readonly JsonObject[]): string | undefined {
    const [choice] = choices;
    if (choices.length !== 1 || !isChoiceIndex(choice?.index)) return undefined;
    return this.#parser.choices.open.has(choice.index) ? plainTextOf(choice) : undefined;
  }

  #forward(data: string, chunk: JsonObject): string {
    const isKnown = this.#upstreamHead !== '' && data.startsWith(this.#upstreamHead);
    // Data with line breaks would need several `data:` lines, so the chunk is serialized again.
    if ((!isKnown && !this.#learnHead(data, chunk)) || data.includes('\n')) {
      return this.#rewrite(chunk);
    }
    const start = this.#upstreamHead.length;
    if (chunk.usage === undefined) return `data: ${this.#clientHead}${data.slice(start)}\n\n`;
    // OpenAI writes `"usage":null` into every chunk because the gateway requests usage. Remove it.
    const at = data.lastIndexOf(noUsageYet);
    if (at < start) return this.#rewrite(chunk);
    const rest = data.slice(start, at) + data.slice(at + noUsageYet.length);
    return `data: ${this.#clientHead}${rest}\n\n`;
  }

  /**
   * Learns the text before `"choices"`. It must parse as the start of the chunk and have the
   * chunk's own value for every field that is replaced. This ensures that no such field is repeated
   * after `"choices"` and that the key wasn't found in a nested object or a string.
   */
  #learnHead(data: string, chunk: JsonObject): boolean {
    const key = '"choices"';
    const at = data.indexOf(key);
    const head = parseExact(`${data.slice(0, at)}${key}:0}`);
    if (at === -1 || !isObject(head)) return false;
    if (typeof head.id !== 'string' || typeof head.model !== 'string') return false;
    const mustMatch = ['id', 'model', 'created', 'object', 'provider'];
    if (mustMatch.some((field) => head[field] !== chunk[field])) return false;
    const rewritten = JSON.stringify(this.#replaceIdentity({ ...head, choices: undefined }));
    this.#upstreamHead = data.slice(0, at) + key;
    this.#clientHead = `${rewritten.slice(0, -1)},${key}`;
    return true;
  }

  /** Replaces the upstream's ID, model, time, and provider with the gateway's. */
  #replaceIdentity(chunk: JsonObject): JsonObject {
    chunk.id = this.#identity.id;
    chunk.model = this.#identity.model;
    chunk.created = this.#identity.created;
    if (chunk.provider !== undefined) chunk.provider = this.#identity.provider;
    return chunk;
  }

  #rewriteSplit(chunk: JsonObject, { content, closed, held }: SplitFinish): string {
    for (const { index } of closed) if (isChoiceIndex(index)) this.#pending.delete(index);
    for (const choice of held) {
      const { index } = choice;
      if (isChoiceIndex(index)) this.#pending.set(index, { ...chunk, choices: [choice] });
    }
    const split = [content, closed].filter((choices) => choices.length > 0);
    return split.map((choices) => this.#rewrite({ ...chunk, choices })).join('');
  }

  #rewrite(chunk: JsonObject): string {
    chunk.usage = undefined;
    return `data: ${JSON.stringify(this.#replaceIdentity(chunk))}\n\n`;
  }
}
