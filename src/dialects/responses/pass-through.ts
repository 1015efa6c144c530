/**
 * A streamed response on its way to a Responses client. Every event but those that hold the whole
 * response passes as the text it came in, so that items and fields nobody here has heard of
 * survive.
 */
import type { GatewayError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import type { Usage } from '../../core/usage.ts';
import type {
  ClientWords,
  ReplyClosing,
  ReplyFacts,
  ReplyIdentity,
  SseMessage,
  StreamRelay,
  UpstreamFailure,
} from '../dialect.ts';
import { parseExact } from '../exact-json.ts';
import { failureInside, malformed, readErrorObject } from '../failure.ts';
import { eventText, failureEvents } from './client-stream.ts';
import { PassedOutput, passedFacts, signResponse, ToldItems } from './passed-response.ts';
import { type Echo, failed } from './response-object.ts';

class StreamFacts implements ReplyFacts {
  usage: Usage | undefined = undefined;
  finishReason: string | undefined = undefined;
  failure: UpstreamFailure | undefined = undefined;
  readonly output = new PassedOutput();

  get outputCharacters(): number {
    return this.output.characters;
  }
}

type Fields = Record<string, unknown>;

export class ResponsesPassThrough implements StreamRelay {
  readonly #facts = new StreamFacts();
  readonly #identity: ReplyIdentity;
  readonly #words: ClientWords;
  readonly #echo: Echo;
  readonly #told = new ToldItems();
  #started = false;
  /** The number of the next event. */
  #number = 0;
  /** Nothing more is forwarded: the end, a failure or last words. */
  #ended = false;
  /** The last event waits for the settled numbers. */
  #last: { readonly type: string; readonly fields: Fields; readonly response: Fields } | undefined;

  constructor(identity: ReplyIdentity, words: ClientWords, echo: Echo) {
    this.#identity = identity;
    this.#words = words;
    this.#echo = echo;
  }

  get facts(): ReplyFacts {
    return this.#facts;
  }

  get started(): boolean {
    return this.#started;
  }

  get finished(): boolean {
    return this.#last !== undefined;
  }

  get ended(): boolean {
    return this.#ended;
  }

  push({ event, data }: SseMessage): string {
    // Nothing follows from OpenAI; some servers add OpenAI's older terminator.
    if (this.#ended || data.startsWith('[DONE]')) return '';
    const fields = parseExact(data);
    if (!isObject(fields)) {
      if (event === 'error') return this.#break(readErrorObject(data));
      const start = data.slice(0, 200);
      const complaint = `The upstream sent an event that is no readable JSON object: ${start}`;
      return this.#break(malformed(complaint));
    }
    const type = typeof fields.type === 'string' ? fields.type : (event ?? '');
    return this.#take(type, fields, data);
  }

  close(closing: ReplyClosing): string {
    this.#ended = true;
    if (!this.#last) return '';
    const { type, fields, response } = this.#last;
    const own = signResponse(response, this.#identity, this.#facts.usage, closing, this.#echo);
    const { response: _, type: __, sequence_number: ___, ...rest } = fields;
    const event = eventText(type, this.#number, rest);
    return `${event.slice(0, -3)},"response":${own}}\n\n`;
  }

  fail(error: GatewayError): string {
    this.#ended = true;
    if (this.#number === 0) return this.#words.fail(error, this.#identity);
    const response = this.#echo.write(this.#identity, failed(error, []));
    return failureEvents(error, response, this.#number);
  }

  keepAlive(): string {
    return this.#words.keepAlive();
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

  /** Who answers is told by us; whether an answer has begun, only its first item says. */
  #open(type: string, fields: Fields): string {
    const response = isObject(fields.response) ? fields.response : {};
    const failure = failureInside(response);
    if (failure) return this.#break(failure);
    // A second beginning behind words would be another answer.
    if (this.#started) return '';
    const own = signResponse(response, this.#identity, undefined, null, this.#echo);
    const text = eventText(type, this.#number, {});
    this.#number += 1;
    return `${text.slice(0, -3)},"response":${own}}\n\n`;
  }

  #end(type: string, fields: Fields): string {
    const response = isObject(fields.response) ? fields.response : {};
    const failure = failureInside(response);
    if (failure) return this.#break(failure);
    const status = type.slice('response.'.length);
    const { usage, finishReason } = passedFacts({ ...response, status }, this.#facts.output);
    this.#facts.usage = usage;
    this.#facts.finishReason = finishReason;
    const output = this.#told.outputFor(response);
    this.#last = { type, fields, response: { ...response, output } };
    this.#started = true;
    this.#ended = true;
    return '';
  }

  #forward(type: string, fields: Fields, data: string): string {
    if (type === '' && fields.error !== undefined) return this.#break(readErrorObject(fields));
    if (!isPlainType.test(type)) return '';
    // Clients expect the announcement first: what keeps a connection alive before it is not passed.
    if (this.#number === 0 && !type.startsWith('response.')) return '';
    this.#facts.output.take(type, fields);
    if (type === 'response.output_item.done' && isObject(fields.item)) {
      this.#told.keep(fields.output_index, fields.item, data.length);
    }
    if (this.#facts.output.isFull) {
      return this.#break(malformed('The upstream sent an answer of too many items.'));
    }
    this.#started = true;
    const number = this.#number;
    this.#number += 1;
    // Data of several lines would need several `data:` lines.
    const isAsItIs = fields.sequence_number === number && !data.includes('\n');
    if (isAsItIs) return `event: ${type}\ndata: ${data}\n\n`;
    const { type: _, sequence_number: __, ...rest } = fields;
    return eventText(type, number, rest);
  }

  #break(failure: UpstreamFailure): string {
    this.#ended = true;
    this.#facts.failure = failure;
    return '';
  }
}

const isPlainType = /^[\w.-]{1,100}$/;
