import type { AnswerSink, Citation } from '../../../core/answer.ts';
import { citationsMax } from '../../../core/bounds.ts';
import { fieldsOf, isObject, itemsOf, type JsonObject, textOf } from '../../../core/json.ts';
import type {
  ReadResult,
  SseMessage,
  StreamReader,
  UpstreamDialect,
  UpstreamFailure,
} from '../../dialect.ts';
import {
  failureInside,
  invalidJsonAnswer,
  invalidJsonEvent,
  malformed,
  readErrorObject,
} from '../../failure.ts';
import { parseExact } from '../../normalize/exact-json.ts';
import { commonParameters } from '../../normalize/requests/vendor-parameters.ts';
import { codePointLength } from '../../normalize/responses/counts.ts';
import { newCallId } from '../../normalize/responses/identity.ts';
import { inputText } from '../../normalize/responses/tool-arguments.ts';
import { prefixSignature } from '../../normalize/signature.ts';
import { type AnthropicEvent, BlockEvents, openingEvents } from '../block-events.ts';
import { finishReasonOf, noStopReason } from '../finish.ts';
import { readUsage, StreamUsage } from '../usage.ts';
import { generationOf } from './parameters.ts';
import { writeMessages } from './request.ts';

/** Anthropic-style upstreams, for clients of other dialects. */
export const anthropicUpstream: UpstreamDialect = {
  parameters: [
    ...commonParameters,
    ...['user', 'safety_identifier', 'parallel_tool_calls', 'top_k', 'stop', 'cache_control'],
  ],
  toolNameLengthMax: 128,
  requiresInlineContent: false,
  defaultThinking: (upstreamModel) => generationOf(upstreamModel)?.thinking ?? null,
  write: writeMessages,
  readStream: (sink) => new AnthropicStreamReader(sink),
  readReply: readFullReply,
};

// Reads answers of Anthropic-style upstreams as neutral events.

function emitFinish(
  sink: AnswerSink,
  { stop_reason: reason, stop_sequence: sequence }: JsonObject,
  hasCalls: boolean,
): boolean {
  if (typeof reason !== 'string') return false;
  const stopSequence = typeof sequence === 'string' ? sequence : null;
  sink.finish(finishReasonOf(reason, hasCalls), stopSequence);
  return true;
}

/**
 * Returns true if the event's name matches its type and it has no `error`. Such an event isn't a
 * failure, even if its type is unknown and it has a `message`.
 */
export function isNamedEvent(event: string | null, { type, error }: JsonObject): boolean {
  return event !== null && event === type && error === undefined;
}

export const startedAgain = 'The provider began its response a second time.';

export class AnthropicStreamReader implements StreamReader {
  finished = false;
  readonly #sink: AnswerSink;
  readonly #emitter: BlockEmitter;
  readonly #usage = new StreamUsage();
  /** The `delta` with the stop reason, emitted only at `message_stop`. */
  #end: JsonObject = {};

  constructor(sink: AnswerSink) {
    this.#sink = sink;
    this.#emitter = new BlockEmitter(sink);
  }

  get ended(): boolean {
    return this.finished;
  }

  push({ event, data }: SseMessage): UpstreamFailure | undefined {
    if (this.finished) return undefined;
    const message = parseExact(data);
    if (event === 'error') return readErrorObject(message ?? data);
    if (!isObject(message)) return invalidJsonEvent(data);
    switch (message.type) {
      case 'message_start':
        return this.#begin(message.message);
      case 'content_block_start':
      case 'content_block_delta':
      case 'content_block_stop':
        this.#count(this.#emitter.take({ fields: message, data }));
        return undefined;
      case 'message_delta':
        this.#takeEnd(message);
        this.#count(this.#emitter.flush());
        return undefined;
      case 'message_stop':
        this.#count(this.#emitter.end());
        this.finished = emitFinish(this.#sink, this.#end, this.#emitter.hasCalls);
        return this.finished ? undefined : malformed(noStopReason);
      default:
        return isNamedEvent(event, message) ? undefined : failureInside(message);
    }
  }

  /**
   * Accepts a repeated `message_start` before the first output. After output, a `message_start`
   * would begin another answer, so it is a failure.
   */
  #begin(message: unknown): UpstreamFailure | undefined {
    if (this.#usage.outputCharacters > 0) return malformed(startedAgain);
    const opening = fieldsOf(message);
    this.#usage.begin(opening.usage);
    this.#emitUsage();
    for (const event of openingEvents(opening)) {
      const failure = this.push(event);
      if (failure !== undefined) return failure;
    }
    return undefined;
  }

  #takeEnd({ delta, usage }: JsonObject): void {
    this.#usage.end(usage);
    this.#emitUsage();
    // A later `message_delta` may have no stop reason.
    if (isObject(delta) && typeof delta.stop_reason === 'string') this.#end = delta;
  }

  #count(characters: number): void {
    if (characters === 0) return;
    this.#usage.outputCharacters += characters;
    this.#emitUsage();
  }

  #emitUsage(): void {
    const { usage, isEstimate } = this.#usage;
    if (usage) this.#sink.usage?.(usage, isEstimate);
  }
}

/** Emits a non-streaming answer. Returns the failure if the text isn't an answer. */
export function readFullReply(text: string, sink: AnswerSink): UpstreamFailure | undefined {
  const message = parseMessage(text);
  if (!message.ok) return message.failure;
  const body = message.value;
  const blocks = new BlockEmitter(sink);
  for (const block of body.content) blocks.emitBlock(block);
  const { usage, isEstimate } = readReport(body.fields.usage);
  if (usage) sink.usage?.(usage, isEstimate);
  return emitFinish(sink, body.fields, blocks.hasCalls) ? undefined : malformed(noStopReason);
}

/** Reads a usage report. It is an estimate if the upstream didn't count the output. */
export function readReport(raw: unknown) {
  const isEstimate = typeof fieldsOf(raw).output_tokens !== 'number';
  return { usage: readUsage(raw), isEstimate };
}

interface MessageBody {
  readonly fields: JsonObject;
  readonly content: readonly JsonObject[];
}

export function parseMessage(text: string): ReadResult<MessageBody> {
  const fields = parseExact(text);
  if (!isObject(fields)) return { ok: false, failure: invalidJsonAnswer(text) };
  const failure = failureInside(fields);
  if (failure) return { ok: false, failure };
  if (!Array.isArray(fields.content)) {
    return { ok: false, failure: malformed('The provider returned no content.') };
  }
  return { ok: true, value: { fields, content: fields.content.filter(isObject) } };
}

// Emits the blocks of an answer as neutral events, for streams and non-streaming answers. Stream
// events are first normalized in block-events.ts. Bedrock's blocks are converted to Anthropic's and
// then also emitted here.

interface OpenBlock {
  /** The number of the block's tool call, until input for that call arrives. */
  callWithoutInput: number | undefined;
  signature: string;
  /** Where the block's text starts in the answer's text, in code points. */
  readonly start: number;
  readonly citations: Omit<Citation, 'range'>[];
}

export class BlockEmitter {
  readonly #sink: AnswerSink;
  readonly #events = new BlockEvents();
  /** Undefined between blocks, and in a block whose type isn't emitted. */
  #open: OpenBlock | undefined;
  #calls = 0;
  #textLength = 0;

  constructor(sink: AnswerSink) {
    this.#sink = sink;
  }

  get hasCalls(): boolean {
    return this.#calls > 0;
  }

  /** Returns how many characters were emitted. `flush` and `end` return the same. */
  take(event: AnthropicEvent): number {
    return this.#emitAll(this.#events.take(event));
  }

  /** Emits the events that are still queued. Called when no more blocks follow. */
  flush(): number {
    return this.#emitAll(this.#events.flush());
  }

  /** Emits the queued events, and ends the last block if the upstream didn't. */
  end(): number {
    return this.flush() + this.#emitAll(this.#events.end());
  }

  /** Emits a block of a non-streaming answer. */
  emitBlock(block: JsonObject): void {
    this.#begin(block);
    this.#end();
  }

  #emitAll(events: readonly AnthropicEvent[]): number {
    let emitted = 0;
    for (const { fields } of events) {
      if (fields.type === 'content_block_start')
        emitted += this.#begin(fieldsOf(fields.content_block));
      else if (fields.type === 'content_block_stop') this.#end();
      else if (this.#open) emitted += this.#add(this.#open, fieldsOf(fields.delta));
    }
    return emitted;
  }

  #begin(block: JsonObject): number {
    const { signature, citations } = block;
    const open: OpenBlock = {
      callWithoutInput: undefined,
      signature: '',
      start: this.#textLength,
      citations: [],
    };
    this.#open = open;
    switch (block.type) {
      case 'text':
        for (const citation of itemsOf(citations)) cite(open, citation);
        return this.#emit('text', block.text);
      case 'thinking':
        open.signature = textOf(signature);
        return this.#emit('reasoning', block.thinking);
      case 'tool_use':
        return this.#emitCall(open, block);
      default:
        this.#open = undefined;
        // Blocks of other types are unknown, or belong to the provider's own tools.
        return block.type === 'redacted_thinking' ? this.#emit('redactedReasoning', block.data) : 0;
    }
  }

  #add(open: OpenBlock, delta: JsonObject): number {
    const { type } = delta;
    if (type === 'text_delta') return this.#emit('text', delta.text);
    if (type === 'thinking_delta') return this.#emit('reasoning', delta.thinking);
    if (type === 'input_json_delta') return this.#emitInput(open, textOf(delta.partial_json));
    if (type === 'signature_delta') open.signature += textOf(delta.signature);
    else if (type === 'citations_delta') cite(open, delta.citation);
    return 0;
  }

  #end(): void {
    const open = this.#open;
    if (open === undefined) return;
    this.#open = undefined;
    const { signature, citations, start, callWithoutInput } = open;
    if (signature !== '') this.#sink.reasoningSignature(prefixSignature('anthropic', signature));
    if (callWithoutInput !== undefined) this.#sink.toolArguments(callWithoutInput, '{}');
    const range = { start, end: this.#textLength };
    for (const citation of citations) this.#sink.citation({ ...citation, range });
  }

  #emit(kind: 'text' | 'reasoning' | 'redactedReasoning', value: unknown): number {
    const text = textOf(value);
    if (text !== '') this.#sink[kind](text);
    if (kind === 'text') this.#textLength += codePointLength(text);
    return text.length;
  }

  #emitCall(open: OpenBlock, { id, name, input }: JsonObject): number {
    open.callWithoutInput = this.#calls;
    this.#sink.toolCall(this.#calls, textOf(id) || newCallId('toolu'), textOf(name));
    this.#calls += 1;
    return textOf(name).length + this.#emitInput(open, inputText(input));
  }

  /** Emits a fragment of the input of the call that started last. */
  #emitInput(open: OpenBlock, json: string): number {
    if (json === '') return 0;
    open.callWithoutInput = undefined;
    this.#sink.toolArguments(this.#calls - 1, json);
    return json.length;
  }
}

/**
 * Adds a citation that has a web URL. Other citations refer to documents that the client itself
 * sent.
 */
function cite({ citations }: OpenBlock, raw: unknown): void {
  if (!isObject(raw) || citations.length >= citationsMax) return;
  const url = textOf(raw.url) || textOf(raw.source);
  if (!/^https?:\/\//.test(url)) return;
  citations.push({ url, title: textOf(raw.title), quote: textOf(raw.cited_text) });
}
