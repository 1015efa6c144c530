/**
 * Parses the answers of Responses upstreams. `passthrough/` and `upstream/` both use this parser,
 * so they agree on failures, invalid events, and how an answer ended.
 */
import type { FinishReason } from '../../core/answer.ts';
import { fieldsOf, isNonEmptyString, isObject, type JsonObject } from '../../core/json.ts';
import type { ReadResult, SseMessage, UpstreamFailure } from '../dialect.ts';
import {
  failureInside,
  invalidJsonAnswer,
  invalidJsonEvent,
  malformed,
  readErrorObject,
} from '../failure.ts';
import { parseExact } from '../normalize/exact-json.ts';

/**
 * An event with the response object, before the first item (`opening`) or after the last (`end`).
 */
interface ResponseEvent {
  readonly kind: 'opening' | 'end';
  readonly type: string;
  readonly fields: JsonObject;
  readonly response: JsonObject;
}

export type ParsedEvent =
  | ResponseEvent
  /** An event about one item, or an event of an unknown type. */
  | { readonly kind: 'item'; readonly type: string; readonly fields: JsonObject }
  | { readonly kind: 'failed'; readonly failure: UpstreamFailure }
  | { readonly kind: 'ignored' };

const ignored: ParsedEvent = { kind: 'ignored' };

export function parseEvent({ event, data }: SseMessage): ParsedEvent {
  // OpenAI sends nothing after the last event. Some servers add `[DONE]`, as in chat streams.
  if (data.startsWith('[DONE]')) return ignored;
  const fields = parseExact(data);
  if (!isObject(fields)) {
    return failed(event === 'error' ? readErrorObject(data) : invalidJsonEvent(data));
  }
  const type = typeof fields.type === 'string' ? fields.type : (event ?? '');
  switch (type) {
    case 'response.completed':
    case 'response.incomplete':
      return parseResponse('end', type, fields);
    case 'response.created':
    case 'response.queued':
    case 'response.in_progress':
      return parseResponse('opening', type, fields);
    case 'response.failed':
    case 'response.cancelled':
      return failed(readErrorObject(isObject(fields.response) ? fields.response : fields));
    case 'error':
      return failed(readErrorObject(fields));
    case '':
      return fields.error === undefined ? ignored : failed(readErrorObject(fields));
    default:
      return { kind: 'item', type, fields };
  }
}

function parseResponse(kind: ResponseEvent['kind'], type: string, fields: JsonObject): ParsedEvent {
  const response = fieldsOf(fields.response);
  const failure = failureInside(response);
  return failure ? failed(failure) : { kind, type, fields, response };
}

function failed(failure: UpstreamFailure): ParsedEvent {
  return { kind: 'failed', failure };
}

/** Returns the status in the type of a stream's last event, such as `completed`. */
export function statusIn(type: string): string {
  return type.slice('response.'.length);
}

/** Parses a non-streaming response. */
export function parseReply(text: string): ReadResult<JsonObject> {
  const response = parseExact(text);
  if (!isObject(response)) return { ok: false, failure: invalidJsonAnswer(text) };
  const failure = failureInside(response) ?? statusFailure(response, response.status);
  return failure ? { ok: false, failure } : { ok: true, value: response };
}

/** Returns a failure if a response with this status is one, or undefined. */
export function statusFailure(response: JsonObject, status: unknown): UpstreamFailure | undefined {
  if (status === 'failed' || status === 'cancelled') return readErrorObject(response);
  if (status === 'completed' || status === 'incomplete') return undefined;
  if (!isNonEmptyString(status)) return malformed('The provider returned no valid status.');
  return malformed(`The provider returned the status ${status}.`);
}

export function finishReasonOf(status: unknown, details: unknown, hasCalls: boolean): FinishReason {
  if (status === 'completed') return hasCalls ? 'tool_calls' : 'stop';
  const isFiltered = fieldsOf(details).reason === 'content_filter';
  return isFiltered ? 'content_filter' : 'length';
}

export function tooManyItems(): UpstreamFailure {
  return malformed('The provider returned too many output items.');
}
