/** Answers of Anthropic-style upstreams in our own words. */
import type { AnswerListener } from '../../core/answer.ts';
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
import { BlockTeller } from './block-teller.ts';
import { finishReasonOf, noStopReason } from './finish.ts';
import { openingEvents } from './opening-events.ts';
import { readUsage, StreamUsage } from './usage.ts';

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

/** Whether this is an event of an unknown kind: that is no error, even if it has a `message`. */
export function isNamedEvent(event: string | null, { type, error }: Fields): boolean {
  return event !== null && event === type && error === undefined;
}

export const startedAgain = 'The upstream began its answer a second time.';

export class AnthropicStreamReader implements StreamReader {
  finished = false;
  readonly #to: AnswerListener;
  readonly #teller: BlockTeller;
  readonly #usage = new StreamUsage();
  /** The `delta` with the stop reason, told only once the end is certain. */
  #end: Fields = {};

  constructor(to: AnswerListener) {
    this.#to = to;
    this.#teller = new BlockTeller(to);
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
      case 'content_block_stop':
        this.#count(this.#teller.take({ fields: message, data }));
        return undefined;
      case 'message_delta':
        this.#takeEnd(message);
        this.#count(this.#teller.rest());
        return undefined;
      case 'message_stop':
        this.#count(this.#teller.end());
        this.finished = tellFinish(this.#to, this.#end, this.#teller.hasCalls);
        return this.finished ? undefined : malformed(noStopReason);
      default:
        return isNamedEvent(event, message) ? undefined : failureInside(message);
    }
  }

  /** A repeated opening is harmless before the first word; after words it is another answer. */
  #begin(message: unknown): UpstreamFailure | undefined {
    if (this.#usage.outputCharacters > 0) return malformed(startedAgain);
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
    this.#usage.outputCharacters += characters;
    this.#tellUsage();
  }

  #tellUsage(): void {
    const { usage, isEstimate } = this.#usage;
    if (usage) this.#to.usage?.(usage, isEstimate);
  }
}

/** Tells a whole answer; returns the failure if the text is none. */
export function tellReply(text: string, listener: AnswerListener): UpstreamFailure | undefined {
  const body = parseMessage(text);
  if ('kind' in body) return body;
  const blocks = new BlockTeller(listener);
  for (const block of body.content) blocks.tellWhole(block);
  const { usage, isEstimate } = readReport(body.fields.usage);
  if (usage) listener.usage?.(usage, isEstimate);
  return tellFinish(listener, body.fields, blocks.hasCalls) ? undefined : malformed(noStopReason);
}

/** The usage of a whole answer; an estimate if the upstream did not count the output. */
export function readReport(raw: unknown) {
  const isEstimate = typeof fieldsOf(raw).output_tokens !== 'number';
  return { usage: readUsage(raw), isEstimate };
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
