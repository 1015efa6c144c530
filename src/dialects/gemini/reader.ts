/** Answers of Gemini in our own words. Every chunk of a stream is shaped like a whole answer. */
import type { AnswerListener } from '../../core/answer.ts';
import { type Fields, fieldsOf, isObject, isText, itemsOf } from '../../core/json.ts';
import { parseExact } from '../answer/exact-json.ts';
import type { SseMessage, StreamReader, UpstreamFailure } from '../dialect.ts';
import { malformed, readErrorObject, unreadableAnswer, unreadableEvent } from '../failure.ts';
import { CandidateTeller } from './candidate-teller.ts';
import { readUsage } from './usage.ts';

/** Errors may come inside a list, and all chunks do if Gemini sends no event stream. */
function chunksIn(text: string): readonly unknown[] {
  const body = parseExact(text);
  return Array.isArray(body) && body.length > 0 ? body : [body];
}

function isWhole(value: unknown): value is number {
  return Number.isInteger(value);
}

/** The index 0 is often left out; if no candidate has an index, its place in the list counts. */
function numberOf({ index }: Fields, at: number, list: readonly unknown[]): number {
  if (isWhole(index)) return index;
  return list.some((one) => isObject(one) && isWhole(one.index)) ? 0 : at;
}

export class GeminiStreamReader implements StreamReader {
  readonly #to: AnswerListener;
  /** By their numbers; only candidates that have a listener. */
  readonly #candidates = new Map<number, CandidateTeller>();
  #isBlocked = false;

  constructor(to: AnswerListener) {
    this.#to = to;
  }

  /** Whether every candidate that began has ended. */
  get finished(): boolean {
    if (this.#isBlocked) return true;
    for (const { finished } of this.#candidates.values()) if (!finished) return false;
    return this.#candidates.size > 0;
  }

  push({ data }: SseMessage): UpstreamFailure | undefined {
    for (const chunk of chunksIn(data)) {
      const failure = isObject(chunk) ? this.take(chunk) : this.#takeGarbage(data);
      if (failure !== undefined) return failure;
    }
    return undefined;
  }

  /** A connection cut after the finish reason loses at most the usage: the answer is whole. */
  #takeGarbage(data: string): UpstreamFailure | undefined {
    return this.finished ? undefined : unreadableEvent(data);
  }

  /** Tells what one chunk, or a whole answer, says. */
  take(chunk: Fields): UpstreamFailure | undefined {
    const { error, usageMetadata } = chunk;
    if (error !== undefined && error !== null) return readErrorObject(chunk);
    const failure = this.#takeCandidates(chunk);
    const usage = usageMetadata === undefined ? undefined : readUsage(usageMetadata);
    // Usage is told after the words that it counts.
    if (usage !== undefined) this.#to.usage?.(usage);
    return failure;
  }

  #takeCandidates({ candidates, promptFeedback }: Fields): UpstreamFailure | undefined {
    const list = itemsOf(candidates);
    for (const [at, candidate] of list.entries()) {
      if (!isObject(candidate)) continue;
      const failure = this.#tellerOf(numberOf(candidate, at, list))?.take(candidate);
      if (failure !== undefined) return failure;
    }
    if (isObject(list[0]) || this.finished) return undefined;
    if (isText(fieldsOf(promptFeedback).blockReason)) {
      this.#isBlocked = true;
      this.#to.finish('content_filter', null);
    }
    return undefined;
  }

  #tellerOf(number: number): CandidateTeller | undefined {
    const known = this.#candidates.get(number);
    if (known !== undefined) return known;
    const to = number === 0 ? this.#to : this.#to.choice?.(number);
    if (to === undefined) return undefined;
    const teller = new CandidateTeller(to);
    this.#candidates.set(number, teller);
    return teller;
  }
}

/** Tells a whole answer; returns the failure if the text is none. */
export function tellReply(text: string, listener: AnswerListener): UpstreamFailure | undefined {
  const reader = new GeminiStreamReader(listener);
  for (const chunk of chunksIn(text)) {
    const failure = isObject(chunk) ? reader.take(chunk) : unreadableAnswer(text);
    if (failure !== undefined) return failure;
  }
  if (reader.finished) return undefined;
  return malformed('The upstream answered without a finish reason.');
}
