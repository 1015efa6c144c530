/** What a demo endpoint answers; the server alone turns it into bytes on a socket. */
import { asGatewayError } from '../core/errors.ts';

export type Bytes = Uint8Array<ArrayBuffer>;

/** Streams are async generators: Bun then respects back-pressure and stops when clients leave. */
export type ReplyStream = AsyncGenerator<string | Bytes, void, undefined>;

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | ReplyStream;
}

export function jsonReply(value: unknown, status = 200): Reply {
  return {
    status,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(value),
  };
}

export function textReply(text: string, contentType = 'text/plain; charset=utf-8'): Reply {
  return { status: 200, headers: { 'content-type': contentType }, body: text };
}

export function streamReply(contentType: string, body: ReplyStream): Reply {
  return {
    status: 200,
    headers: { 'content-type': contentType, 'cache-control': 'no-cache' },
    body,
  };
}

/** Any failure in OpenAI's error shape. */
export function errorReply(thrown: unknown): Reply {
  const error = asGatewayError(thrown);
  const type = error.status >= 500 ? 'server_error' : 'invalid_request_error';
  return jsonReply(
    { error: { message: error.message, type, param: error.param, code: null } },
    error.status,
  );
}

/** Waits between two chunks when the caller asked to see them drip. */
export async function pause(delayMs: number): Promise<void> {
  if (delayMs > 0) await Bun.sleep(delayMs);
}
