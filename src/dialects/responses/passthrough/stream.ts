/**
 * Passes a streamed response to a Responses client. Except for the events with the full response
 * object, events are forwarded as the upstream wrote them, so that unknown items and fields are
 * preserved.
 */
import type { GatewayError } from '../../../core/errors.ts';
import { isObject, type JsonObject } from '../../../core/json.ts';
import type {
  ReplyIdentity,
  SettledUsage,
  SseMessage,
  StreamTransform,
  UpstreamFailure,
} from '../../dialect.ts';
import { keepAlive } from '../../event-stream.ts';
import { removePrivateFields } from '../../normalize/responses/private-fields.ts';
import { parseEvent, statusIn, tooManyItems } from '../answer-parser.ts';
import { type Echo, failed } from '../client/response-object.ts';
import { eventText, failureEvents, responsesStreamFormat } from '../client/response-writers.ts';
import {
  addItemId,
  countedUsage,
  EmittedItems,
  normalizeEvent,
  OutputMeter,
  writeResponse,
} from './reply.ts';

export class ResponsesPassThrough implements StreamTransform {
  readonly #output: OutputMeter;
  readonly metrics: OutputMeter['metrics'];
  started = false;
  /** Set after the end, a failure, or the gateway's closing events. Nothing more is forwarded. */
  ended = false;
  readonly #identity: ReplyIdentity;
  readonly #echo: Echo;
  readonly #emittedItems = new EmittedItems();
  /** The sequence number of the next event. */
  #number = 0;
  /** The last event, which is held until its usage is settled. */
  #last:
    | { readonly type: string; readonly fields: JsonObject; readonly response: JsonObject }
    | undefined;

  constructor(identity: ReplyIdentity, echo: Echo) {
    this.#output = new OutputMeter(identity.provider);
    this.metrics = this.#output.metrics;
    this.#identity = identity;
    this.#echo = echo;
  }

  get finished(): boolean {
    return this.#last !== undefined;
  }

  push(message: SseMessage): string {
    if (this.ended) return '';
    const parsed = parseEvent(message);
    switch (parsed.kind) {
      case 'item':
        return this.#forward(parsed.type, parsed.fields, message.data);
      case 'opening':
        return this.#rewriteOpening(parsed.type, parsed.response);
      case 'end':
        return this.#holdEnd(parsed.type, parsed.fields, parsed.response);
      case 'failed':
        return this.#recordFailure(parsed.failure);
      case 'ignored':
        return '';
    }
  }

  close(settled: SettledUsage): string {
    this.ended = true;
    if (!this.#last) return '';
    const { type, fields, response } = this.#last;
    const usage = countedUsage(response, this.metrics.usage, settled);
    const rewritten = writeResponse(response, this.#identity, this.#echo, usage);
    const { response: _, type: __, sequence_number: ___, ...rest } = fields;
    removePrivateFields(rest);
    return withResponse(eventText(type, this.#number, rest), rewritten);
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

  /**
   * Rewrites an opening event with the gateway's ID and model. The answer hasn't started yet: it
   * starts with the first item.
   */
  #rewriteOpening(type: string, response: JsonObject): string {
    // Drop an opening event that arrives after the answer has started.
    if (this.started) return '';
    const rewritten = writeResponse(response, this.#identity, this.#echo, null);
    const text = eventText(type, this.#number, {});
    this.#number += 1;
    return withResponse(text, rewritten);
  }

  #holdEnd(type: string, fields: JsonObject, response: JsonObject): string {
    const status = statusIn(type);
    const changed = this.#output.end({ ...response, status });
    const output = this.#emittedItems.outputFor(response);
    this.#last = {
      type: `response.${changed.status ?? status}`,
      fields,
      response: { status, ...response, ...changed, output },
    };
    this.started = true;
    this.ended = true;
    return '';
  }

  #forward(type: string, fields: JsonObject, data: string): string {
    if (!isPlainType.test(type)) return '';
    // Clients expect `response.created` first, so keep-alive events before it are dropped.
    if (this.#number === 0 && !type.startsWith('response.')) return '';
    const hasNewId = addItemId(fields.item);
    const index = this.#output.take(type, fields);
    const isContent = fields.delta !== undefined || fields.item !== undefined;
    const hasPrivate = !isContent && removePrivateFields(fields);
    const { provider } = this.#identity;
    const isChanged = normalizeEvent(type, fields, index, provider) || hasNewId || hasPrivate;
    if (type === 'response.output_item.done' && isObject(fields.item)) {
      this.#emittedItems.add(fields.output_index, fields.item, data.length);
    }
    if (this.#output.isFull) return this.#recordFailure(tooManyItems());
    this.started = true;
    const number = this.#number;
    this.#number += 1;
    // Data with line breaks would need several `data:` lines, so the event is serialized again.
    const isUnchanged = !isChanged && fields.sequence_number === number && !data.includes('\n');
    if (isUnchanged) return `event: ${type}\ndata: ${data}\n\n`;
    const { type: _, sequence_number: __, ...rest } = fields;
    return eventText(type, number, rest);
  }

  #recordFailure(failure: UpstreamFailure): string {
    this.ended = true;
    this.metrics.failure = failure;
    return '';
  }
}

/** Adds a `response` field, which is already serialized, to an event. */
function withResponse(event: string, json: string): string {
  return `${event.slice(0, -'}\n\n'.length)},"response":${json}}\n\n`;
}

const isPlainType = /^[\w.-]{1,100}$/;
