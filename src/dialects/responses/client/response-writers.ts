import { outputItemsMax, streamedResponseLengthMax } from '../../../core/bounds.ts';
import { GatewayError } from '../../../core/errors.ts';
import type {
  ClientDialect,
  ReplyIdentity,
  ReplyWriter,
  SettledUsage,
  StreamFormat,
  StreamWriter,
} from '../../dialect.ts';
import { keepAlive } from '../../event-stream.ts';
import { type EventOutput, OutputWriter } from './output-writer.ts';
import { type Echo, ended, errorCode, failed, inProgress } from './response-object.ts';
import { ClientTools, type WithTools } from './tools.ts';

/** Returns the writers of neutral events for a Responses client. */
export function responsesClient(body: WithTools, echo: Echo): ClientDialect {
  return {
    writeStream: (identity) => new ResponsesStreamWriter(identity, new ClientTools(body), echo),
    writeReply: (identity) => new ResponsesReplyWriter(identity, new ClientTools(body), echo),
  };
}

class ResponsesStreamWriter extends OutputWriter implements StreamWriter {
  readonly #events: EventBuffer;

  constructor(identity: ReplyIdentity, clientTools: ClientTools, echo: Echo) {
    const events = new EventBuffer(identity, echo);
    super(identity, clientTools, echo, events);
    this.#events = events;
  }

  take(): string {
    return this.#events.take();
  }

  close(settled: SettledUsage): string {
    this.endItems();
    const outcome = ended(this.reason, this.output, settled);
    const response = this.echo.write(this.identity, outcome);
    this.#events.emit(`response.${outcome.status}`, { response });
    return this.take();
  }

  fail(error: GatewayError): string {
    const done = this.output.filter((item) => item !== undefined);
    this.#events.fail(error, this.echo.write(this.identity, failed(error, done)));
    return this.take();
  }

  keepAlive(): string {
    return keepAlive;
  }
}

/** Buffers the events of a stream. Writes the opening events before the first one. */
class EventBuffer implements EventOutput {
  readonly #identity: ReplyIdentity;
  readonly #echo: Echo;
  #text = '';
  /** The sequence number of the next event. */
  #number = 0;
  #storedLength = 0;

  constructor(identity: ReplyIdentity, echo: Echo) {
    this.#identity = identity;
    this.#echo = echo;
  }

  take(): string {
    const text = this.#text;
    this.#text = '';
    return text;
  }

  emit(type: string, fields: object): void {
    this.#open();
    this.#text += eventText(type, this.#number, fields);
    this.#number += 1;
  }

  fail(error: GatewayError, response: object): void {
    this.#open();
    this.#text += failureEvents(error, response, this.#number);
  }

  /** Limits how much is stored. The answer is stored because the last event repeats all of it. */
  trackSize(characters: number, items: number): void {
    this.#storedLength += characters;
    const isLong = this.#storedLength > streamedResponseLengthMax;
    if (!isLong && items <= outputItemsMax) return;
    throw new GatewayError('upstream_error', 'The response is too long to be streamed.');
  }

  #open(): void {
    if (this.#number > 0) return;
    this.#text += openingEvents(this.#echo.write(this.#identity, inProgress));
    this.#number = 2;
  }
}

export function eventText(type: string, number: number, fields: object): string {
  const data = JSON.stringify({ type, sequence_number: number, ...fields });
  return `event: ${type}\ndata: ${data}\n\n`;
}

function openingEvents(response: object): string {
  const created = eventText('response.created', 0, { response });
  return created + eventText('response.in_progress', 1, { response });
}

/**
 * Writes both `error` and `response.failed`, because clients look for either one. OpenAI documents
 * the fields of `error` as flat but sends them nested, so they are written both ways.
 */
export function failureEvents(error: GatewayError, response: object, number: number): string {
  const { message, param, symbol } = error;
  const errorFields = { code: errorCode(error), message, param };
  const event = eventText('error', number, {
    ...errorFields,
    error: { type: symbol, ...errorFields },
  });
  return event + eventText('response.failed', number + 1, { response });
}

/** Writes the errors of streams for which no upstream answered. */
export function responsesStreamFormat(echo: Echo): StreamFormat {
  return {
    fail(error, identity) {
      const response = echo.write(identity, failed(error, []));
      return openingEvents(echo.write(identity, inProgress)) + failureEvents(error, response, 2);
    },
  };
}

/** Doesn't limit the length of the response, because the upstream's is limited when it is read. */
class ResponsesReplyWriter extends OutputWriter implements ReplyWriter {
  write(settled: SettledUsage): string {
    this.endItems();
    const outcome = ended(this.reason, this.output, settled);
    return JSON.stringify(this.echo.write(this.identity, outcome));
  }
}
