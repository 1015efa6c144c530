/** The client that tests use to send requests and to read answers and streams. */
import { isObject, parseJson } from '../../../src/core/json.ts';
import { readStreamText } from '../sse-client.ts';
import { within } from '../wait-until.ts';

/** Longer than any answer takes, even where a test lets a provider be silent. */
const answerMsMax = 90_000;

export interface Call {
  readonly key?: string | null;
  /** An object is sent as JSON. A string or bytes are sent unchanged. */
  readonly body?: object | string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body, or an empty object if it isn't a JSON object. */
  readonly body: Record<string, unknown>;
  /** The body's `error`, or an empty object if the request succeeded. */
  readonly error: Record<string, unknown>;
}

export function send(
  url: string,
  method: string,
  { key, body, headers, signal }: Call = {},
): Promise<Response> {
  const plain = typeof body === 'string' || body instanceof Uint8Array;
  const response = fetch(url, {
    method,
    headers: {
      ...(key ? { authorization: `Bearer ${key}` } : {}),
      ...(body === undefined || plain ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: plain ? body : JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  });
  return within(response, `the response to ${method} ${url}`, answerMsMax);
}

export async function readAnswer(response: Response): Promise<Answer> {
  const text = await within(readStreamText(response), `the body from ${response.url}`, answerMsMax);
  const parsed = parseJson(text);
  const body = isObject(parsed) ? parsed : {};
  const { status, headers } = response;
  return { status, headers, text, body, error: isObject(body.error) ? body.error : {} };
}

/** Reads a stream event by event. */
export class ChatStream implements AsyncIterableIterator<string> {
  readonly response: Response;
  /** The text received so far. */
  text = '';
  readonly #events: AsyncGenerator<string>;

  constructor(response: Response) {
    this.response = response;
    this.#events = eventsOf(response);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Returns the `data` of the next event. Skips comments. */
  async next(): Promise<IteratorResult<string>> {
    const subject = `an event after: ${this.text.slice(-200)}`;
    const step = await within(this.#events.next(), subject, answerMsMax);
    if (!step.done) this.text += contentOf(step.value);
    return step;
  }

  /** Reads until the text has this many characters, or to the end. */
  async read(characters = Number.POSITIVE_INFINITY): Promise<string> {
    while (this.text.length < characters && !(await this.next()).done);
    return this.text;
  }

  /** Closes the connection before the stream has ended. */
  async disconnect(): Promise<void> {
    await this.#events.return(undefined);
  }
}

async function* eventsOf(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of response.body ?? []) {
    rest += decoder.decode(bytes, { stream: true });
    const parts = rest.split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts) if (part.startsWith('data: ')) yield part.slice('data: '.length);
  }
}

function contentOf(data: string): string {
  const chunk = parseJson(data);
  const choices = isObject(chunk) && Array.isArray(chunk.choices) ? chunk.choices : [];
  const [choice] = choices.filter(isObject);
  const delta = isObject(choice?.delta) ? choice.delta : {};
  return typeof delta.content === 'string' ? delta.content : '';
}
