import type { ReadableStreamDefaultReader } from 'node:stream/web';

/** A response whose head has arrived and whose body is still to be read. */
export interface HttpResponse {
  readonly status: number;
  readonly ok: boolean;
  readonly headers: ResponseHeaders;
  /** Null if the response has no body. */
  readonly body: ResponseBody | null;
  /** True if nothing but the end of the connection marks the end of the body. */
  readonly endsWithConnection: boolean;
  /**
   * Reads the full body as text. Call it only for bodies whose length is known and bounded.
   * `onPiece` is called for each piece that arrives while it waits for the rest.
   */
  text(onPiece?: () => void): Promise<string>;
}

/** Headers, looked up by lowercase name. */
export type ResponseHeaders = Pick<Headers, 'get'>;

/**
 * The bytes of a response, read from the connection only on request. It uses callbacks instead of
 * promises because a stream has thousands of pieces.
 */
export interface ResponseBody {
  /**
   * Calls exactly one callback, once, possibly before it returns: `onBytes` with the next bytes or
   * undefined at the end of the body, or `onError` if the rest can't be read. Call `read` again
   * only after the callback.
   */
  read(onBytes: (bytes: Uint8Array | undefined) => void, onError: (reason: unknown) => void): void;
  /** Closes the connection and drops the unread bytes. */
  cancel(): void;
}

/** Wraps a response of the runtime's `fetch`. */
export function toHttpResponse(response: Response): HttpResponse {
  const { status, ok, headers, body } = response;
  const text = (onPiece?: () => void) => textOf(response, onPiece);
  const isChunked = /\bchunked\b/i.test(headers.get('transfer-encoding') ?? '');
  const endsWithConnection = !isChunked && headers.get('content-length') === null;
  return { status, ok, headers, body: body && bodyOf(body), endsWithConnection, text };
}

async function textOf(response: Response, onPiece?: () => void): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const piece of response.body ?? []) {
    chunks.push(piece);
    onPiece?.();
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

export function bodyOf(stream: ReadableStream<Uint8Array>): ResponseBody {
  // Created by the first read, because a locked stream can't be read by `text()`.
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  return {
    read(onBytes, onError) {
      reader ??= stream.getReader();
      reader.read().then(({ value }) => onBytes(value), onError);
    },
    cancel() {
      reader ??= stream.getReader();
      reader.cancel().catch(() => undefined);
    },
  };
}

/**
 * Thrown if a connection fails before the end of a response, or if the response isn't valid HTTP.
 */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Returns the error for a response that isn't valid HTTP. `found` completes "The server sent". */
export function protocolError(found: string): ConnectionError {
  return new ConnectionError('EPROTO', `The server sent ${found}.`);
}
