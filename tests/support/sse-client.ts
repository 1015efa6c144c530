import { isObject, parseJson } from '../../src/core/json.ts';
import { checkOpenAiStream } from './stream-checks.ts';
import { within } from './wait-until.ts';

// Parses the gateway's streams strictly: accepts only the syntax that the gateway writes.

export type Chunk = Readonly<Record<string, unknown>>;

export interface SseReading {
  readonly status: number;
  readonly headers: Headers;
  readonly requestId: string;
  /** The full body as text. */
  readonly text: string;
  readonly chunks: readonly Chunk[];
  readonly comments: readonly string[];
  /** The number of `[DONE]` events. */
  readonly doneCount: number;
  /** The text of choice 0. */
  readonly content: string;
  readonly finishReasons: readonly string[];
  readonly usage: Record<string, unknown> | undefined;
  /** The `error` of a chunk. */
  readonly error: Record<string, unknown> | undefined;
}

export async function readSse(response: Response): Promise<SseReading> {
  const text = readStreamText(response, true);
  return parseSse(await within(text, `the end of ${response.url}`, 60_000), response);
}

/**
 * Reads a stream to its end or to an error event. The gateway keeps the connection of a broken
 * stream open for up to 4 seconds, and never finishes the transfer.
 */
export async function readStreamText(response: Response, fatal = false): Promise<string> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder('utf-8', { fatal });
  let text = '';
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
    text += decoder.decode(value, { stream: !done });
    if (done || isBroken(text)) break;
  }
  await reader?.cancel();
  return text;
}

/** Returns whether the last event of a stream is an error, in any client's format. */
function isBroken(text: string): boolean {
  if (!text.endsWith('\n\n')) return false;
  const start = text.lastIndexOf('\n\n', text.length - 3);
  const last = text.slice(start === -1 ? 0 : start + 2);
  return (
    last.startsWith('data: {"error":') ||
    last.startsWith('event: response.failed\n') ||
    // A Responses stream has another event after this one.
    (last.startsWith('event: error\n') && !last.includes('"sequence_number"'))
  );
}

export function parseSse(text: string, response: Response): SseReading {
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  if (isStream) checkOpenAiStream(text);
  const blocks = isStream ? text.split('\n\n') : [''];
  if (blocks.pop() !== '') throw new Error(`The stream ends inside an event: ${text.slice(-100)}`);
  const comments = blocks.filter((block) => block.startsWith(':'));
  const events = blocks.filter((block) => !block.startsWith(':')).map(dataOf);
  const chunks = events.filter((data) => data !== '[DONE]').map(chunkOf);
  const choices = chunks.flatMap(({ choices }) => (Array.isArray(choices) ? choices : []));
  const first = choices.filter(isObject).filter(({ index }) => index === 0);
  return {
    status: response.status,
    headers: response.headers,
    requestId: response.headers.get('x-request-id') ?? '',
    text,
    chunks,
    comments,
    doneCount: events.length - chunks.length,
    content: first.map(({ delta }) => textIn(delta)).join(''),
    finishReasons: first.map((choice) => choice.finish_reason).filter((r) => typeof r === 'string'),
    usage: chunks.map(({ usage }) => usage).find(isObject),
    error: chunks.map(({ error }) => error).find(isObject),
  };
}

function dataOf(block: string): string {
  if (!/^data: [^\r\n]+$/.test(block))
    throw new Error(`The event is not a single data line: ${block}`);
  return block.slice('data: '.length);
}

function chunkOf(data: string): Chunk {
  const chunk = parseJson(data);
  if (!isObject(chunk)) throw new Error(`The data is not a JSON object: ${data}`);
  return chunk;
}

function textIn(delta: unknown): string {
  return isObject(delta) && typeof delta.content === 'string' ? delta.content : '';
}

/** A client that reads a stream piece by piece. */
export class SlowReader {
  readonly #reader: { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }> };
  readonly #decoder = new TextDecoder();
  text = '';

  constructor(response: Response) {
    if (!response.body) throw new Error('The answer has no body.');
    this.#reader = response.body.getReader();
  }

  /** Reads until the text includes `expected`. Throws if the stream ends first. */
  async readUntil(expected: string): Promise<void> {
    while (!this.text.includes(expected)) {
      const subject = `"${expected}" in a stream after: ${this.text.slice(-200)}`;
      const { done, value } = await within(this.#reader.read(), subject, 60_000);
      if (done) throw new Error(`The stream ended without "${expected}": ${this.text.slice(-200)}`);
      this.text += this.#decoder.decode(value, { stream: true });
    }
  }
}
