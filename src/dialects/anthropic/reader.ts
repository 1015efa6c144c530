/** Answers of Anthropic-style upstreams in our own words. */
import type { AnswerListener, FinishReason } from '../../core/answer.ts';
import { type Fields, fieldsOf, isObject } from '../../core/json.ts';
import { parseExact } from '../answer/exact-json.ts';
import type { SseMessage, StreamReader, UpstreamFailure } from '../dialect.ts';
import {
  failureInside,
  malformed,
  readErrorObject,
  unreadableAnswer,
  unreadableEvent,
} from '../failure.ts';
import { type AnthropicEvent, BlockOrder } from './block-order.ts';
import { BlockTeller } from './block-teller.ts';
import { openingEvents } from './opening-events.ts';
import { SoundBlocks } from './sound-blocks.ts';
import { readUsage, StreamUsage } from './usage.ts';

const finishReasons: ReadonlyMap<string, FinishReason> = new Map([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop_sequence'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'context'],
  ['tool_use', 'tool_calls'],
  ['refusal', 'content_filter'],
  ['pause_turn', 'pause'],
  // OpenAI's words, which proxies may leave in answers of this dialect.
  ['length', 'length'],
  ['content_filter', 'content_filter'],
]);

/** A reason not listed means that the answer is over, and clients know no better word for that. */
export function finishReasonOf(raw: string, hasCalls: boolean): FinishReason {
  const reason = finishReasons.get(raw) ?? 'stop';
  return reason === 'stop' && hasCalls ? 'tool_calls' : reason;
}

function tellFinish(
  listener: AnswerListener,
  { stop_reason: reason, stop_sequence: sequence }: Fields,
  hasCalls: boolean,
): boolean {
  if (typeof reason !== 'string') return false;
  const stopSequence = typeof sequence === 'string' ? sequence : null;
  listener.finish(finishReasonOf(reason, hasCalls), stopSequence);
  return true;
}

/** Whether this is an event of a new kind: a `message` in it does not make it an error. */
export function isEvent(event: string | null, { type, error }: Fields): boolean {
  return event !== null && event === type && error === undefined;
}

export const startedAgain = 'The upstream began its answer a second time.';
export const noStopReason = 'The upstream ended its answer without a stop reason.';

export class AnthropicStreamReader implements StreamReader {
  finished = false;
  readonly #to: AnswerListener;
  readonly #blocks: BlockTeller;
  readonly #order = new BlockOrder();
  readonly #sound = new SoundBlocks();
  readonly #usage = new StreamUsage();
  /** Why it ended; told once it is certain that it did. */
  #end: Fields = {};

  constructor(to: AnswerListener) {
    this.#to = to;
    this.#blocks = new BlockTeller(to);
  }

  get ended(): boolean {
    return this.finished;
  }

  push({ event, data }: SseMessage): UpstreamFailure | undefined {
    if (this.finished) return undefined;
    const message = parseExact(data);
    if (event === 'error') return readErrorObject(message ?? data);
    if (!isObject(message)) return unreadableEvent(data);
    switch (message.type) {
      case 'message_start':
        return this.#begin(message.message);
      case 'content_block_start':
      case 'content_block_delta':
      case 'content_block_stop': {
        const event = { fields: message, data };
        if (!this.#order.keeps(event)) this.#tell(event);
        this.#tellAll(this.#order.due());
        return undefined;
      }
      case 'message_delta':
        this.#takeEnd(message);
        this.#tellAll(this.#order.due(true));
        return undefined;
      case 'message_stop':
        this.#tellAll(this.#order.due(true));
        return this.#finish();
      default:
        return isEvent(event, message) ? undefined : failureInside(message);
    }
  }

  #tellAll(events: readonly AnthropicEvent[]): void {
    for (const event of events) this.#tell(event);
  }

  #tell(event: AnthropicEvent): void {
    if (this.#sound.passes(event)) this.#say(event);
    else for (const mended of this.#sound.mend(event)) this.#say(mended);
  }

  #say({ fields }: AnthropicEvent): void {
    const { type, index, content_block: block, delta } = fields;
    if (type === 'content_block_stop') this.#blocks.close(index);
    else if (type === 'content_block_start' && isObject(block)) {
      this.#count(this.#blocks.open(index, block));
    } else if (type === 'content_block_delta' && isObject(delta)) {
      this.#count(this.#blocks.delta(index, delta));
    }
  }

  #finish(): UpstreamFailure | undefined {
    for (const event of this.#sound.end()) this.#say(event);
    this.finished = tellFinish(this.#to, this.#end, this.#blocks.hasCalls);
    return this.finished ? undefined : malformed(noStopReason);
  }

  /** An opening that is repeated at once is harmless; after words it would be another answer. */
  #begin(message: unknown): UpstreamFailure | undefined {
    if (this.#usage.characters > 0) return malformed(startedAgain);
    const opening = fieldsOf(message);
    this.#usage.begin(opening.usage);
    this.#tellUsage();
    for (const event of openingEvents(opening)) {
      const failure = this.push(event);
      if (failure !== undefined) return failure;
    }
    return undefined;
  }

  #takeEnd({ delta, usage }: Fields): void {
    this.#usage.end(usage);
    this.#tellUsage();
    // A later report may have no stop reason.
    if (isObject(delta) && typeof delta.stop_reason === 'string') this.#end = delta;
  }

  #count(characters: number): void {
    if (characters === 0) return;
    this.#usage.characters += characters;
    this.#tellUsage();
  }

  #tellUsage(): void {
    const { usage, isEstimate } = this.#usage;
    if (usage) this.#to.usage?.(usage, isEstimate);
  }
}

/** Tells a whole answer; the failure that it is instead, if it is one. */
export function tellReply(text: string, listener: AnswerListener): UpstreamFailure | undefined {
  const body = parseMessage(text);
  if ('kind' in body) return body;
  const blocks = new BlockTeller(listener);
  for (const [index, block] of body.content.entries()) {
    blocks.open(index, block);
    blocks.close(index);
  }
  const usage = readUsage(body.fields.usage);
  if (usage) listener.usage?.(usage);
  return tellFinish(listener, body.fields, blocks.hasCalls) ? undefined : malformed(noStopReason);
}

interface MessageBody {
  readonly fields: Fields;
  readonly content: readonly Fields[];
}

export function parseMessage(text: string): MessageBody | UpstreamFailure {
  const fields = parseExact(text);
  if (!isObject(fields)) return unreadableAnswer(text);
  const failure = failureInside(fields);
  if (failure) return failure;
  if (!Array.isArray(fields.content)) return malformed('The upstream answered without content.');
  return { fields, content: fields.content.filter(isObject) };
}
