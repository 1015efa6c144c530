import type { ReadableStreamDefaultReader } from 'node:stream/web';

/** What a server answered, its body still to be read. */
export interface HttpResponse {
  readonly status: number;
  readonly ok: boolean;
  readonly headers: ResponseHeaders;
  /** Null where there is none. */
  readonly body: ResponseBody | null;
  /**
   * The whole body; only for bodies whose length is known and bounded. `onPiece` hears of each
   * piece that came while the rest was waited for.
   */
  text(onPiece?: () => void): Promise<string>;
}

/** Headers by their names in lower case. */
export type ResponseHeaders = Pick<Headers, 'get'>;

/**
 * An answer's bytes, taken from the connection only when somebody asks for more. Callbacks instead
 * of a promise: a stream has thousands of pieces.
 */
export interface ResponseBody {
  /**
   * Calls one of the two callbacks, once and perhaps immediately: `taken` with the next bytes, or
   * with undefined when that was all; `broken` with the reason why no more will come. May be called
   * again only after that.
   */
  read(onBytes: (bytes: Uint8Array | undefined) => void, onError: (reason: unknown) => void): void;
  /** Ends the connection together with what was not read. */
  cancel(): void;
}

/** The answer to a call that the runtime made for us. */
export function toHttpResponse(response: Response): HttpResponse {
  const { status, ok, headers, body } = response;
  const text = (onPiece?: () => void) => textOf(response, onPiece);
  return { status, ok, headers, body: body && bodyOf(body), text };
}

async function textOf(response: Response, onPiece?: () => void): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const piece of response.body ?? []) {
    pieces.push(piece);
    onPiece?.();
  }
  return new TextDecoder().decode(Buffer.concat(pieces));
}

export function bodyOf(stream: ReadableStream<Uint8Array>): ResponseBody {
  // Made by the first read: with a reader, `text` could not read the whole body any more.
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

/** An answer that did not come, broke off, or was no HTTP. */
export class ConnectionError extends Error {
  override readonly name = 'BrokenAnswer';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The other side sent something that is no HTTP. */
export function protocolError(what: string): ConnectionError {
  return new ConnectionError('EPROTO', `The server sent ${what}.`);
}
