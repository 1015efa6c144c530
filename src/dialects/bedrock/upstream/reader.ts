import type { AnswerSink, FinishReason } from '../../../core/answer.ts';
import { eventBytesMax, openBlocksMax } from '../../../core/bounds.ts';
import {
  fieldsOf,
  isNonEmptyString,
  isObject,
  type JsonObject,
  lengthOf,
  objectsIn,
  textOf,
} from '../../../core/json.ts';
import type { Usage } from '../../../core/usage.ts';
import { finishReasonOf as anthropicReason, noStopReason } from '../../anthropic/finish.ts';
import { BlockEmitter, startedAgain } from '../../anthropic/upstream/reader.ts';
import { readUsage as readAnthropicUsage } from '../../anthropic/usage.ts';
import type { SseMessage, StreamReader, UpstreamFailure } from '../../dialect.ts';
import {
  failureInside,
  finishReasonFailure,
  invalidJsonAnswer,
  invalidJsonEvent,
  malformed,
  readErrorObject,
} from '../../failure.ts';
import { parseExact } from '../../normalize/exact-json.ts';
import { readCount } from '../../normalize/responses/counts.ts';
import { brokenFrame } from './frames.ts';

/** Bedrock's own stop reasons. Its other stop reasons are Anthropic's. */
const reasons: ReadonlyMap<string, FinishReason> = new Map([
  ['guardrail_intervened', 'content_filter'],
  ['content_filtered', 'content_filter'],
]);

/** Stop reasons for output that Bedrock couldn't read. Another attempt may succeed. */
const mistakes: ReadonlySet<string> = new Set(['malformed_model_output', 'malformed_tool_use']);

function finishReasonOf(reason: string, hasCalls: boolean): FinishReason {
  return reasons.get(reason) ?? anthropicReason(reason, hasCalls);
}

/** Returns the failure for a stop reason, or for a missing stop reason. */
function endFailure(reason: unknown): UpstreamFailure | undefined {
  if (!isNonEmptyString(reason)) return malformed(noStopReason);
  return mistakes.has(reason) ? finishReasonFailure('server', reason) : undefined;
}

/**
 * The paths of the matched stop sequence in the model's own fields: in a non-streaming response,
 * and in a stream's last event.
 */
export const stopSequencePaths = ['/stop_sequence', '/delta/stop_sequence'];

function stopSequenceIn(fields: unknown): string | null {
  if (!isObject(fields)) return null;
  const { delta, stop_sequence: topLevel } = fields;
  const found = topLevel ?? fieldsOf(delta).stop_sequence;
  return isNonEmptyString(found) ? found : null;
}

/** Reads usage. Bedrock has the same counts as Anthropic, but under other names. */
function readUsage(raw: unknown): Usage | undefined {
  if (!isObject(raw)) return undefined;
  const hours = objectsIn(raw.cacheDetails).filter(({ ttl }) => ttl === '1h');
  const forHour = hours.reduce((sum, part) => sum + readCount(part.inputTokens), 0);
  return readAnthropicUsage({
    input_tokens: raw.inputTokens,
    cache_read_input_tokens: raw.cacheReadInputTokens,
    cache_creation_input_tokens: raw.cacheWriteInputTokens,
    cache_creation: { ephemeral_1h_input_tokens: forHour },
    output_tokens: raw.outputTokens,
  });
}

// Converts Bedrock's blocks to Anthropic's, which are similar, so that one class emits both.

/**
 * Decodes base64 to a string with one character per byte. For encrypted reasoning, that string is
 * what Anthropic itself sends as `data`.
 */
function fromBase64(base64: string): string {
  return Buffer.from(base64, 'base64').toString('latin1');
}

export function toBase64(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('base64');
}

/** Converts a block of a complete answer. */
function completeBlock(content: JsonObject): JsonObject | undefined {
  const { text, toolUse, reasoningContent, citationsContent } = content;
  if (typeof text === 'string') return { type: 'text', text };
  if (isObject(toolUse)) return callBlock(toolUse);
  if (isObject(citationsContent)) return citedBlock(citationsContent);
  if (!isObject(reasoningContent)) return undefined;
  const { reasoningText, redactedContent } = reasoningContent;
  if (typeof redactedContent === 'string') {
    return { type: 'redacted_thinking', data: fromBase64(redactedContent) };
  }
  if (!isObject(reasoningText)) return undefined;
  return {
    type: 'thinking',
    thinking: reasoningText.text,
    signature: reasoningText.signature,
  };
}

/** Converts a block event. Returns undefined if it is empty or contains bytes. */
function blockEvent({
  contentBlockIndex: index,
  start,
  delta,
}: JsonObject): JsonObject | undefined {
  const { toolUse } = fieldsOf(start);
  const opened = isObject(toolUse) ? callBlock(toolUse) : reasoningBlock(fieldsOf(delta));
  if (opened) return { type: 'content_block_start', index, content_block: opened };
  const converted = blockDelta(fieldsOf(delta));
  return converted && { type: 'content_block_delta', index, delta: converted };
}

/**
 * Returns a block start for each reasoning delta, because Bedrock sends no start event for
 * reasoning. The text may be empty.
 */
function reasoningBlock({ reasoningContent }: JsonObject): JsonObject | undefined {
  const { text, signature } = fieldsOf(reasoningContent);
  const isPresent = text !== undefined || signature !== undefined;
  return isPresent ? { type: 'thinking', thinking: text, signature } : undefined;
}

function blockDelta({ text, toolUse, citation }: JsonObject): JsonObject | undefined {
  if (typeof text === 'string') return { type: 'text_delta', text };
  if (isObject(toolUse)) return { type: 'input_json_delta', partial_json: toolUse.input };
  if (isObject(citation)) return { type: 'citations_delta', citation: citationOf(citation) };
  return undefined;
}

/**
 * Converts a tool call. Calls of Amazon's own tools, such as its web search, aren't converted to
 * `tool_use`, because the client doesn't run those tools.
 */
function callBlock({ toolUseId, name, input, type }: JsonObject): JsonObject {
  const isServerTool = type === 'server_tool_use';
  return { type: isServerTool ? type : 'tool_use', id: toolUseId, name, input };
}

function citedBlock({ content, citations }: JsonObject): JsonObject {
  const texts = objectsIn(content).map(({ text }) => text);
  return {
    type: 'text',
    text: texts.join(''),
    citations: objectsIn(citations).map(citationOf),
  };
}

function citationOf({ title, location, sourceContent }: JsonObject): JsonObject {
  const web = fieldsOf(fieldsOf(location).web);
  const [quoted] = objectsIn(sourceContent);
  return { url: web.url, title, cited_text: quoted?.text };
}

// Reads answers of Bedrock's Converse API.

/** Encrypted reasoning or an image, which arrives in chunks and is emitted once complete. */
interface OpaqueBlock {
  /** Null for reasoning. */
  readonly mediaType: string | null;
  bytes: string;
}

export class BedrockStreamReader implements StreamReader {
  /** True once the answer is complete. Its usage follows. */
  finished = false;
  ended = false;
  readonly #sink: AnswerSink;
  readonly #emitter: BlockEmitter;
  /** The indexes of all open blocks. */
  readonly #open = new Set<unknown>();
  readonly #opaque = new Map<unknown, OpaqueBlock>();
  #bufferedLength = 0;
  #hasContent = false;

  constructor(sink: AnswerSink) {
    this.#sink = sink;
    this.#emitter = new BlockEmitter(sink);
  }

  push({ event, data }: SseMessage): UpstreamFailure | undefined {
    if (this.ended) return undefined;
    const fields = parseExact(data);
    if (event === 'metadata' && isObject(fields)) return this.#takeUsage(fields);
    // Ignore errors after the end: the answer is complete, and at most its usage is lost.
    if (this.finished) return undefined;
    if (!isObject(fields)) return invalidJsonEvent(data);
    switch (event) {
      case 'messageStart':
        return this.#hasContent ? malformed(startedAgain) : undefined;
      case 'contentBlockStart':
      case 'contentBlockDelta':
        return this.#bufferBlock(fields) ?? this.#emit(blockEvent(fields), data);
      case 'contentBlockStop':
        this.#close(fields.contentBlockIndex);
        return undefined;
      case 'messageStop':
        return this.#finish(fields);
      case brokenFrame:
        return malformed(isNonEmptyString(fields.message) ? fields.message : brokenFrame);
      default:
        return failureNamed(event, fields);
    }
  }

  #takeUsage({ usage }: JsonObject): undefined {
    const read = readUsage(usage);
    if (read !== undefined) this.#sink.usage?.(read);
    this.ended = this.finished;
  }

  #emit(event: JsonObject | undefined, data: string): undefined {
    if (event && this.#emitter.take({ fields: event, data }) > 0) this.#hasContent = true;
  }

  /**
   * Buffers bytes until their block ends. Signatures are buffered by the emitter, but their size is
   * limited here.
   */
  #bufferBlock({
    contentBlockIndex: index,
    start,
    delta,
  }: JsonObject): UpstreamFailure | undefined {
    this.#open.add(index);
    if (this.#open.size > openBlocksMax) {
      return malformed('The provider opened too many blocks at the same time.');
    }
    const { format } = fieldsOf(fieldsOf(start).image);
    const { reasoningContent, image } = fieldsOf(delta);
    const { redactedContent: encrypted, signature } = fieldsOf(reasoningContent);
    const mediaType = isNonEmptyString(format) ? `image/${format}` : null;
    const isOpening = mediaType !== null || isNonEmptyString(encrypted);
    if (isOpening && !this.#opaque.has(index)) this.#opaque.set(index, { mediaType, bytes: '' });
    const block = this.#opaque.get(index);
    const chunk = block ? fromBase64(textOf(encrypted) || bytesIn(fieldsOf(image))) : '';
    if (block) block.bytes += chunk;
    this.#bufferedLength += chunk.length + lengthOf(signature);
    const isLong = this.#bufferedLength > eventBytesMax;
    return isLong ? malformed('The provider sent a block that is too long.') : undefined;
  }

  #close(index: unknown): void {
    this.#open.delete(index);
    this.#emit({ type: 'content_block_stop', index }, '');
    const block = this.#opaque.get(index);
    if (block === undefined) return;
    this.#opaque.delete(index);
    this.#bufferedLength -= block.bytes.length;
    if (block.bytes === '') return;
    this.#hasContent = true;
    if (block.mediaType !== null) this.#sink.image(block.mediaType, toBase64(block.bytes));
    else this.#sink.redactedReasoning(block.bytes);
  }

  #finish(end: JsonObject): UpstreamFailure | undefined {
    const failure = endFailure(end.stopReason);
    if (failure !== undefined) return failure;
    for (const index of [...this.#opaque.keys()]) this.#close(index);
    this.#emitter.end();
    this.finished = true;
    emitFinish(this.#sink, end, this.#emitter.hasCalls);
    return undefined;
  }
}

/** Emits a complete answer. Returns the failure if the text isn't an answer. */
export function readFullReply(text: string, sink: AnswerSink): UpstreamFailure | undefined {
  const body = parseExact(text);
  if (!isObject(body)) return invalidJsonAnswer(text);
  const { output, stopReason, usage } = body;
  const message = fieldsOf(fieldsOf(output).message);
  if (!Array.isArray(message.content)) {
    return failureInside(body) ?? malformed('The provider returned no content.');
  }
  const failure = endFailure(stopReason);
  if (failure !== undefined) return failure;
  const blocks = new BlockEmitter(sink);
  for (const content of objectsIn(message.content)) emitBlock(content, blocks, sink);
  const read = readUsage(usage);
  if (read !== undefined) sink.usage?.(read);
  emitFinish(sink, body, blocks.hasCalls);
  return undefined;
}

function emitFinish(
  sink: AnswerSink,
  { stopReason, additionalModelResponseFields: modelFields }: JsonObject,
  hasCalls: boolean,
): void {
  sink.finish(finishReasonOf(textOf(stopReason), hasCalls), stopSequenceIn(modelFields));
}

function emitBlock(content: JsonObject, blocks: BlockEmitter, sink: AnswerSink): void {
  const block = completeBlock(content);
  if (block !== undefined) {
    blocks.emitBlock(block);
    return;
  }
  const { image } = content;
  if (!isObject(image) || !isNonEmptyString(image.format)) return;
  const bytes = bytesIn(image);
  if (bytes !== '') sink.image(`image/${image.format}`, bytes);
}

function bytesIn({ source }: JsonObject): string {
  return textOf(fieldsOf(source).bytes);
}

/** Exceptions are recognized by event name. Other unknown events are ignored. */
function failureNamed(event: string | null, fields: JsonObject): UpstreamFailure | undefined {
  if (event !== 'error' && !event?.endsWith('xception')) return undefined;
  return readErrorObject({ code: event, ...fields });
}
