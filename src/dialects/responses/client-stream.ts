/** An answer told in our words, as the events of a response that is streamed. */
import { outputItemsMax, streamedResponseLengthMax } from '../../core/bounds.ts';
import { GatewayError } from '../../core/errors.ts';
import type { ClientWords, ReplyClosing, StreamWriter } from '../dialect.ts';
import { keepAlive } from '../event-stream.ts';
import { OutputWriter } from './output-writer.ts';
import { type Echo, ended, errorCode, failed, inProgress } from './response-object.ts';

export class ResponsesStreamWriter extends OutputWriter implements StreamWriter {
  #out = '';
  #number = 0;
  #keptLength = 0;

  take(): string {
    const out = this.#out;
    this.#out = '';
    return out;
  }

  close(closing: ReplyClosing): string {
    this.endItems();
    const outcome = ended(this.reason, this.output, closing);
    const response = this.echo.write(this.identity, outcome);
    this.say(`response.${outcome.status}`, { response });
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

  protected override say(type: string, fields: object): void {
    this.#begin();
    this.#out += eventText(type, this.#number, fields);
    this.#number += 1;
  }

  /** Limits what is kept: the last event repeats the whole answer. */
  protected override grow(characters: number): void {
    this.#keptLength += characters;
    const isLong = this.#keptLength > streamedResponseLengthMax;
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
  const told = { code: errorCode(error), message, param };
  const event = eventText('error', number, { ...told, error: { type: symbol, ...told } });
  return event + eventText('response.failed', number + 1, { response });
}

/** What the gateway itself says to a Responses client, outside of an upstream's answer. */
export function responsesWords(echo: Echo): ClientWords {
  return {
    fail(error, identity) {
      const response = echo.write(identity, failed(error, []));
      return openingEvents(echo.write(identity, inProgress)) + failureEvents(error, response, 2);
    },
  };
}
