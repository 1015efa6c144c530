/**
 * A streamed response on its way to a Responses client. Every event but those that hold the whole
 * response passes as the text it came in, so that items and fields unknown to us survive.
 */
import type { GatewayError } from '../../../core/errors.ts';
import { type Fields, fieldsOf, isObject } from '../../../core/json.ts';
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
import { eventText, failureEvents, responsesStreamFormat } from '../client/answer-writers.ts';
import { type Echo, failed } from '../client/response-object.ts';
import { tooManyItems } from '../upstream/reader.ts';
import {
  countedUsage,
  EmittedItems,
  nameItem,
  normalizeEvent,
  PassedOutput,
  signResponse,
} from './reply.ts';

export class ResponsesPassThrough implements StreamTransform {
  readonly #output = new PassedOutput();
  readonly metrics = this.#output.metrics;
  started = false;
  /** Nothing more is forwarded after the end, a failure or the gateway's own last words. */
  ended = false;
  readonly #identity: ReplyIdentity;
  readonly #echo: Echo;
  readonly #emittedItems = new EmittedItems();
  /** The number of the next event. */
  #number = 0;
  /** The last event waits for the settled numbers. */
  #last: { readonly type: string; readonly fields: Fields; readonly response: Fields } | undefined;

  constructor(identity: ReplyIdentity, echo: Echo) {
    this.#identity = identity;
    this.#echo = echo;
  }

  get finished(): boolean {
    return this.#last !== undefined;
  }

  push({ event, data }: SseMessage): string {
    // OpenAI sends nothing after the last event; some servers add `[DONE]`, as chats have it.
    if (this.ended || data.startsWith('[DONE]')) return '';
    const fields = parseExact(data);
    if (!isObject(fields)) {
      return this.#break(event === 'error' ? readErrorObject(data) : invalidJsonEvent(data));
    }
    const type = typeof fields.type === 'string' ? fields.type : (event ?? '');
    return this.#take(type, fields, data);
  }

  close(settled: SettledUsage): string {
    this.ended = true;
    if (!this.#last) return '';
    const { type, fields, response } = this.#last;
    const usage = countedUsage(response, this.metrics.usage, settled);
    const own = signResponse(response, this.#identity, this.#echo, usage);
    const { response: _, type: __, sequence_number: ___, ...rest } = fields;
    return withResponse(eventText(type, this.#number, rest), own);
  }

  fail(error: GatewayError): string {
    this.ended = true;
    if (this.#number === 0) return responsesStreamFormat(this.#echo).fail(error, this.#identity);
    const response = this.#echo.write(this.#identity, failed(error, []));
    return failureEvents(error, response, this.#number);
  }

  keepAlive(): string {
    return keepAlive;
  }

  #take(type: string, fields: Fields, data: string): string {
    switch (type) {
      case 'response.completed':
      case 'response.incomplete':
        return this.#end(type, fields);
      case 'response.failed':
      case 'response.cancelled':
        return this.#break(readErrorObject(isObject(fields.response) ? fields.response : fields));
      case 'error':
        return this.#break(readErrorObject(fields));
      case 'response.created':
      case 'response.queued':
      case 'response.in_progress':
        return this.#open(type, fields);
      default:
        return this.#forward(type, fields, data);
    }
  }

  /** The opening names our model. The answer has not begun yet: that takes its first item. */
  #open(type: string, fields: Fields): string {
    const response = fieldsOf(fields.response);
    const failure = failureInside(response);
    if (failure) return this.#break(failure);
    // An opening that comes after the answer has begun is left out.
    if (this.started) return '';
    const own = signResponse(response, this.#identity, this.#echo, null);
    const text = eventText(type, this.#number, {});
    this.#number += 1;
    return withResponse(text, own);
  }

  #end(type: string, fields: Fields): string {
    const response = fieldsOf(fields.response);
    const failure = failureInside(response);
    if (failure) return this.#break(failure);
    const status = type.slice('response.'.length);
    this.#output.end({ ...response, status });
    const output = this.#emittedItems.outputFor(response);
    this.#last = { type, fields, response: { status, ...response, output } };
    this.started = true;
    this.ended = true;
    return '';
  }

  #forward(type: string, fields: Fields, data: string): string {
    if (type === '' && fields.error !== undefined) return this.#break(readErrorObject(fields));
    if (!isPlainType.test(type)) return '';
    // Clients expect `response.created` first: keep-alive events before it are left out.
    if (this.#number === 0 && !type.startsWith('response.')) return '';
    const isNamed = nameItem(fields.item);
    const index = this.#output.take(type, fields);
    const isChanged = normalizeEvent(type, fields, index) || isNamed;
    if (type === 'response.output_item.done' && isObject(fields.item)) {
      this.#emittedItems.add(fields.output_index, fields.item, data.length);
    }
    if (this.#output.isFull) return this.#break(tooManyItems());
    this.started = true;
    const number = this.#number;
    this.#number += 1;
    // Data of several lines would need several `data:` lines.
    const isAsItIs = !isChanged && fields.sequence_number === number && !data.includes('\n');
    if (isAsItIs) return `event: ${type}\ndata: ${data}\n\n`;
    const { type: _, sequence_number: __, ...rest } = fields;
    return eventText(type, number, rest);
  }

  #break(failure: UpstreamFailure): string {
    this.ended = true;
    this.metrics.failure = failure;
    return '';
  }
}

/** An event with one more field, which is JSON already. */
function withResponse(event: string, json: string): string {
  return `${event.slice(0, -'}\n\n'.length)},"response":${json}}\n\n`;
}

const isPlainType = /^[\w.-]{1,100}$/;
