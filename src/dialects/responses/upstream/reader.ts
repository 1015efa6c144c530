import type { AnswerSink, FinishReason } from '../../../core/answer.ts';
import { type Fields, fieldsOf, isObject, isText } from '../../../core/json.ts';
import type { SseMessage, StreamReader, UpstreamDialect, UpstreamFailure } from '../../dialect.ts';
import {
  failureInside,
  invalidJsonAnswer,
  invalidJsonEvent,
  malformed,
  readErrorObject,
} from '../../failure.ts';
import { parseExact } from '../../normalize/exact-json.ts';
import { readUsage } from '../usage.ts';
import { ItemEmitter } from './output-items.ts';
import { writeRequest } from './request.ts';

/** OpenAI's Responses endpoint, for models that take tools only there while they reason. */
export const responsesUpstream: UpstreamDialect = {
  toolNameLengthMax: 64,
  defaultThinking: () => 'effort',
  write: writeRequest,
  readStream: (sink) => new ResponsesStreamReader(sink),
  readReply: readFullReply,
};

/** Answers of the Responses endpoint in our own words. */

export class ResponsesStreamReader implements StreamReader {
  finished = false;
  readonly #sink: AnswerSink;
  readonly #emitter: ItemEmitter;

  constructor(sink: AnswerSink) {
    this.#sink = sink;
    this.#emitter = new ItemEmitter(sink);
  }

  get ended(): boolean {
    return this.finished;
  }

  push({ event, data }: SseMessage): UpstreamFailure | undefined {
    // OpenAI sends nothing after the last event; some servers add `[DONE]`, as chats have it.
    if (this.finished || data.startsWith('[DONE]')) return undefined;
    const message = parseExact(data);
    if (!isObject(message)) {
      return event === 'error' ? readErrorObject(data) : invalidJsonEvent(data);
    }
    return this.#take(typeof message.type === 'string' ? message.type : (event ?? ''), message);
  }

  #take(type: string, message: Fields): UpstreamFailure | undefined {
    switch (type) {
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
        return this.takeResponse(fieldsOf(message.response), type.slice('response.'.length));
      case 'response.created':
      case 'response.queued':
      case 'response.in_progress':
        return failureInside(fieldsOf(message.response));
      case 'error':
        return readErrorObject(message);
      case '':
        return message.error === undefined ? undefined : readErrorObject(message);
      default:
        this.#emitter.take(type, message);
        return this.#emitter.isFull ? tooManyItems() : undefined;
    }
  }

  /** Tells what is new in the whole response. */
  takeResponse(response: Fields, claimed: string | undefined): UpstreamFailure | undefined {
    const { status = claimed, output, incomplete_details: details } = response;
    const failure = failureOf(response, status);
    if (failure !== undefined) return failure;
    this.#emitter.emitOutput(output);
    if (this.#emitter.isFull) return tooManyItems();
    this.#emitter.end();
    const usage = readUsage(response.usage);
    if (usage !== undefined) this.#sink.usage?.(usage);
    this.finished = true;
    this.#sink.finish(finishReasonOf(status, details, this.#emitter.hasCalls), null);
    return undefined;
  }
}

/** Why a response of this status is no answer; undefined when it is one. */
export function failureOf(response: Fields, status: unknown): UpstreamFailure | undefined {
  const failure = failureInside(response);
  if (failure !== undefined) return failure;
  if (status === 'failed' || status === 'cancelled') return readErrorObject(response);
  if (status === 'completed' || status === 'incomplete') return undefined;
  return malformed(`The upstream answered with the status ${isText(status) ? status : '?'}.`);
}

export function finishReasonOf(status: unknown, details: unknown, hasCalls: boolean): FinishReason {
  if (status === 'completed') return hasCalls ? 'tool_calls' : 'stop';
  const isFiltered = fieldsOf(details).reason === 'content_filter';
  return isFiltered ? 'content_filter' : 'length';
}

export function tooManyItems(): UpstreamFailure {
  return malformed('The upstream sent an answer of too many items.');
}

/** Tells a whole answer; returns the failure if the text is none. */
export function readFullReply(text: string, sink: AnswerSink): UpstreamFailure | undefined {
  const response = parseExact(text);
  if (!isObject(response)) return invalidJsonAnswer(text);
  return new ResponsesStreamReader(sink).takeResponse(response, undefined);
}
