import { randomText } from '../core/ids.ts';
import type { LongBytes } from '../core/upload.ts';

/** Bodies that carry files, read from where the files lie while they are sent. */

export type Piece = string | LongBytes;

export function joined(pieces: readonly Piece[]): LongBytes {
  const parts = pieces.map((piece) =>
    typeof piece === 'string' ? inMemory(new TextEncoder().encode(piece)) : piece,
  );
  return {
    bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0),
    async *chunks() {
      for (const part of parts) yield* part.chunks();
    },
  };
}

export function inMemory(content: Uint8Array): LongBytes {
  return {
    bytes: content.length,
    async *chunks() {
      yield content;
    },
  };
}

/** The same bytes in base64. */
export function inBase64(content: LongBytes): LongBytes {
  return {
    bytes: Math.ceil(content.bytes / 3) * 4,
    async *chunks() {
      // Three bytes are four characters; bytes left over from a chunk are encoded with the next.
      let rest: Buffer = Buffer.alloc(0);
      for await (const chunk of content.chunks()) {
        const known = rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk]);
        const whole = known.length - (known.length % 3);
        rest = known.subarray(whole);
        if (whole > 0) yield Buffer.from(known.toString('base64', 0, whole), 'latin1');
      }
      if (rest.length > 0) yield Buffer.from(rest.toString('base64'), 'latin1');
    },
  };
}

export interface FileField {
  readonly name: string;
  readonly filename: string;
  readonly contentType: string;
  readonly content: LongBytes;
}

/** A form; values other than texts are written as JSON, lists as one field for each item. */
export function writeForm(
  fields: Readonly<Record<string, unknown>>,
  files: readonly FileField[],
): { readonly headers: Record<string, string>; readonly body: LongBytes } {
  const boundary = `tollgate-${randomText(32)}`;
  const open = (name: string) =>
    `--${boundary}\r\ncontent-disposition: form-data; name="${quotable(name)}"`;
  const pieces: Piece[] = Object.entries(fields).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one: unknown) => {
      const text = typeof one === 'string' ? one : JSON.stringify(one);
      return `${open(name)}\r\n\r\n${text}\r\n`;
    }),
  );
  for (const { name, filename, contentType, content } of files) {
    const about = `; filename="${quotable(filename)}"\r\ncontent-type: ${contentType}`;
    pieces.push(`${open(name)}${about}\r\n\r\n`, content, '\r\n');
  }
  return {
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
    body: joined([...pieces, `--${boundary}--\r\n`]),
  };
}

/** Escapes names as browsers do, so that no character of a name can end the header. */
function quotable(name: string): string {
  return name.replaceAll('\r', '%0D').replaceAll('\n', '%0A').replaceAll('"', '%22');
}
