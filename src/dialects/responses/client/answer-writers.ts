import { outputItemsMax, streamedResponseLengthMax } from '../../../core/bounds.ts';
import { GatewayError } from '../../../core/errors.ts';
import type {
  ClientDialect,
  ReplyWriter,
  SettledUsage,
  StreamFormat,
  StreamWriter,
} from '../../dialect.ts';
import { keepAlive } from '../../events.ts';
import { OutputWriter } from './output-writer.ts';
import { type Echo, ended, errorCode, failed, inProgress } from './response-object.ts';
import { ToolForms, type WithTools } from './tools.ts';

/** How an answer told in our words is written for a Responses client. */
export function responsesClient(body: WithTools, echo: Echo): ClientDialect {
  return {
    writeStream: (identity) => new ResponsesStreamWriter(identity, new ToolForms(body), echo),
    writeReply: (identity) => new ResponsesReplyWriter(identity, new ToolForms(body), echo),
  };
}

/** An answer told in our words, as the events of a response that is streamed. */

class ResponsesStreamWriter extends OutputWriter implements StreamWriter {
  #out = '';
  #number = 0;
  #storedLength = 0;

  take(): string {
    const out = this.#out;
    this.#out = '';
    return out;
  }

  close(settled: SettledUsage): string {
    this.endItems();
    const outcome = ended(this.reason, this.output, settled);
    const response = this.echo.write(this.identity, outcome);
    this.emit(`response.${outcome.status}`, { response });
    return this.take();
  }

  fail(error: GatewayError): string {
    this.#begin();
    const done = this.output.filter((item) => item !== undefined);
    const response = this.echo.write(this.identity, failed(error, done));
    return this.take() + failureEvents(error, response, this.#number);
  }

  keepAlive(): string {
    return keepAlive;
  }

  protected override emit(type: string, fields: object): void {
    this.#begin();
    this.#out += eventText(type, this.#number, fields);
    this.#number += 1;
  }

  /** Limits what is kept: the last event repeats the whole answer. */
  protected override trackSize(characters: number): void {
    this.#storedLength += characters;
    const isLong = this.#storedLength > streamedResponseLengthMax;
    if (!isLong && this.items <= outputItemsMax) return;
    throw new GatewayError('upstream_error', 'The answer is too long to be streamed.');
  }

  #begin(): void {
    if (this.#number > 0) return;
    this.#out += openingEvents(this.echo.write(this.identity, inProgress));
    this.#number = 2;
  }
}

export function eventText(type: string, number: number, fields: object): string {
  const data = JSON.stringify({ type, sequence_number: number, ...fields });
  return `event: ${type}\ndata: ${data}\n\n`;
}

function openingEvents(response: object): string {
  const begun = eventText('response.created', 0, { response });
  return begun + eventText('response.in_progress', 1, { response });
}

/**
 * The events `error` and `response.failed`, because some clients look for one and some for the
 * other. OpenAI documents the fields of `error` as flat but sends them nested: here they are both.
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

/** What the gateway itself says to a Responses client, outside of an upstream's answer. */
export function responsesStreamFormat(echo: Echo): StreamFormat {
  return {
    fail(error, identity) {
      const response = echo.write(identity, failed(error, []));
      return openingEvents(echo.write(identity, inProgress)) + failureEvents(error, response, 2);
    },
  };
}

/** An answer told in our words, as one response. */

class ResponsesReplyWriter extends OutputWriter implements ReplyWriter {
  write(settled: SettledUsage): string {
    this.endItems();
    const outcome = ended(this.reason, this.output, settled);
    return JSON.stringify(this.echo.write(this.identity, outcome));
  }

  protected override emit(): void {}

  /** Counts nothing: the length of a whole answer is limited where it is read. */
  protected override trackSize(): void {}
}
