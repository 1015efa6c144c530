import type { ReadableStreamDefaultReader } from 'node:stream/web';

/** What a server answered, its body still to be read. */
export interface HttpAnswer {
  readonly status: number;
  readonly ok: boolean;
  readonly headers: AnswerHeaders;
  /** Null where there is none. */
  readonly body: AnswerBody | null;
  /** The whole body: for those whose length is known and bounded. */
  text(): Promise<string>;
}

/** By their names in small letters. */
export type AnswerHeaders = Pick<Headers, 'get'>;

/**
 * An answer's bytes, taken from the connection only when somebody asks for more. Callbacks instead
 * of a promise: a stream has thousands of pieces.
 */
export interface AnswerBody {
  /**
   * Calls one of the two, once and perhaps at once: the next bytes, or undefined when that was
   * all; or why no more will come. Only when the last call was answered may there be another.
   */
  read(taken: (bytes: Uint8Array | undefined) => void, broken: (reason: unknown) => void): void;
  /** Ends the connection with what was not read. */
  cancel(): void;
}

/** The answer to a call that the runtime made for us. */
export function answerOf(response: Response): HttpAnswer {
  const { status, ok, headers, body } = response;
  const text = () => response.text();
  return { status, ok, headers, body: body && bodyOf(body), text };
}

export function bodyOf(stream: ReadableStream<Uint8Array>): AnswerBody {
  // Taken by the first who reads: nobody else could read it whole then.
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  return {
    read(taken, broken) {
      reader ??= stream.getReader();
      reader.read().then(({ value }) => taken(value), broken);
    },
    cancel() {
      reader ??= stream.getReader();
      reader.cancel().catch(() => undefined);
    },
  };
}
