import type { StreamedContent } from '../core/form.ts';
import { randomText } from '../core/ids.ts';
import { base64Length } from '../core/text.ts';

// Request bodies that contain files. The files are read while they are sent.

export type BodyPart = string | StreamedContent;

export function concatBodies(parts: readonly BodyPart[]): StreamedContent {
  const bodies = parts.map((part) =>
    typeof part === 'string' ? bodyFromBytes(new TextEncoder().encode(part)) : part,
  );
  return {
    bytes: bodies.reduce((sum, { bytes }) => sum + bytes, 0),
    async *chunks() {
      for (const body of bodies) yield* body.chunks();
    },
  };
}

export function bodyFromBytes(content: Uint8Array): StreamedContent {
  return {
    bytes: content.length,
    async *chunks() {
      yield content;
    },
  };
}

/** Encodes the content as base64. */
export function inBase64(content: StreamedContent): StreamedContent {
  return {
    bytes: base64Length(content.bytes),
    async *chunks() {
      // 3 bytes become 4 characters. Leftover bytes are encoded with the next chunk.
      let rest: Buffer = Buffer.alloc(0);
      for await (const chunk of content.chunks()) {
        const buffered = rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk]);
        const alignedLength = buffered.length - (buffered.length % 3);
        rest = buffered.subarray(alignedLength);
        if (alignedLength > 0)
          yield Buffer.from(buffered.toString('base64', 0, alignedLength), 'latin1');
      }
      if (rest.length > 0) yield Buffer.from(rest.toString('base64'), 'latin1');
    },
  };
}

export interface FileField {
  readonly name: string;
  readonly filename: string;
  readonly contentType: string;
  readonly content: StreamedContent;
}

/**
 * Writes a multipart form. Values other than strings are written as JSON, and lists as one field
 * per item.
 */
export function writeForm(
  fields: Readonly<Record<string, unknown>>,
  files: readonly FileField[],
): { readonly headers: Record<string, string>; readonly body: StreamedContent } {
  const boundary = `tollgate-${randomText(32)}`;
  const open = (name: string) =>
    `--${boundary}\r\ncontent-disposition: form-data; name="${escapeQuoted(name)}"`;
  const parts: BodyPart[] = Object.entries(fields).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((item: unknown) => {
      const text = typeof item === 'string' ? item : JSON.stringify(item);
      return `${open(name)}\r\n\r\n${text}\r\n`;
    }),
  );
  for (const { name, filename, contentType, content } of files) {
    const attributes = `; filename="${escapeQuoted(filename)}"\r\ncontent-type: ${contentType}`;
    parts.push(`${open(name)}${attributes}\r\n\r\n`, content, '\r\n');
  }
  return {
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
    body: concatBodies([...parts, `--${boundary}--\r\n`]),
  };
}

/** Escapes names as browsers do, so that no name can end the header. */
function escapeQuoted(name: string): string {
  return name.replaceAll('\r', '%0D').replaceAll('\n', '%0A').replaceAll('"', '%22');
}
