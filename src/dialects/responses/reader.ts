/** Answers of the Responses endpoint in our own words. */
import type { AnswerListener, FinishReason } from '../../core/answer.ts';
import { isObject } from '../../core/json.ts';
import type { SseMessage, StreamReader, UpstreamFailure } from '../dialect.ts';
import { parseExact } from '../exact-json.ts';
import { failureInside, malformed, readErrorObject } from '../failure.ts';
import { ItemTeller } from './item-teller.ts';
import { readUsage } from './usage.ts';

export class ResponsesReader implements StreamReader {
  readonly #to: AnswerListener;
  readonly #teller: ItemTeller;
  #finished = false;

  constructor(to: AnswerListener) {
    this.#to = to;
    this.#teller = new ItemTeller(to);
  }

  get finished(): boolean {
    return this.#finished;
  }

  get ended(): boolean {
    return this.#finished;
  }

  push({ event, data }: SseMessage): UpstreamFailure | undefined {
    // Nothing follows from OpenAI; some servers add OpenAI's older terminator.
    if (this.#finished || data.startsWith('[DONE]')) return undefined;
    const message = parseExact(data);
    if (!isObject(message)) {
      const start = data.slice(0, 200);
      return malformed(`The upstream sent an event that is no readable JSON object: ${start}`);
    }
    return this.#take(typeof message.type === 'string' ? message.type : (event ?? ''), message);
  }

  #take(type: string, message: Record<string, unknown>): UpstreamFailure | undefined {
    switch (type) {
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
        return this.takeResponse(
          isObject(message.response) ? message.response : {},
          type.slice('response.'.length),
        );
      case 'error':
        return readErrorObject(message);
      case '':
        return message.error === undefined ? undefined : readErrorObject(message);
      default:
        this.#teller.take(type, message);
        return this.#teller.isFull ? tooManyItems() : undefined;
    }
  }

  /** Tells the whole response, as far as it is not told yet. */
  takeResponse(
    response: Record<string, unknown>,
    claimed: string | undefined,
  ): UpstreamFailure | undefined {
    const { status = claimed, output, incomplete_details: details } = response;
    const failure = failureInside(response);
    if (failure !== undefined) return failure;
    if (status === 'failed' || status === 'cancelled') return readErrorObject(response);
    if (status !== 'completed' && status !== 'incomplete') {
      return malformed(`The upstream answered with the status ${String(status)}.`);
    }
    const items: unknown[] = Array.isArray(output) ? output : [];
    for (const [at, item] of items.entries()) if (isObject(item)) this.#teller.tellItem(at, item);
    if (this.#teller.isFull) return tooManyItems();
    const usage = readUsage(response.usage);
    if (usage !== undefined) this.#to.usage(usage);
    this.#finished = true;
    this.#to.finish(this.#finishReason(status, details), null);
    return undefined;
  }

  #finishReason(status: string, details: unknown): FinishReason {
    if (status === 'completed') return this.#teller.hasCalls ? 'tool_calls' : 'stop';
    const isFiltered = isObject(details) && details.reason === 'content_filter';
    return isFiltered ? 'content_filter' : 'length';
  }
}

function tooManyItems(): UpstreamFailure {
  return malformed('The upstream sent an answer of too many items.');
}
