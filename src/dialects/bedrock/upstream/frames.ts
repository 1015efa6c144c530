/**
 * Converts Amazon's event stream, `application/vnd.amazon.eventstream`, to the text of server-sent
 * events, so that the code that reads, records, or replays an answer handles only one format. A
 * frame consists of its length, the length of its headers, a checksum of both, the headers, the
 * payload, and a checksum of everything before it. Numbers are big-endian.
 */
import { crc32 } from 'node:zlib';
import { eventBytesMax } from '../../../core/bounds.ts';

const preludeBytes = 12;
const checksumBytes = 4;
const frameBytesMin = preludeBytes + checksumBytes;

/** The initial buffer size for an incomplete frame. */
const bufferBytesMin = 4 * 1024;

/** The name of the event for an invalid frame. Nothing after such a frame is read. */
export const brokenFrame = 'brokenFrame';

export function isFramed({ headers }: { readonly headers: Pick<Headers, 'get'> }): boolean {
  return /^application\/vnd\.amazon\.eventstream/i.test(headers.get('content-type') ?? '');
}

/** Used in place of a `TextDecoder`. It never throws: an invalid frame becomes an event. */
export class FrameDecoder {
  /** The start of an incomplete frame. */
  #buffer = Buffer.alloc(0);
  #bufferedLength = 0;
  #isBroken = false;

  /** Decodes bytes to events. If the stream ends within a frame, that frame is dropped. */
  decode(bytes: Uint8Array = new Uint8Array()): string {
    let rest = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let text = '';
    while (!this.#isBroken && rest.length > 0) {
      if (this.#bufferedLength === 0) {
        const length = lengthOf(rest);
        if (typeof length === 'string') return text + this.#break(length);
        if (length !== undefined && rest.length >= length) {
          text += this.#read(rest.subarray(0, length));
          rest = rest.subarray(length);
          continue;
        }
      }
      const [decoded, consumed] = this.#consume(rest);
      text += decoded;
      rest = rest.subarray(consumed);
    }
    return text;
  }

  /**
   * Appends bytes to the buffered frame, first up to the end of its prelude, then up to its end.
   */
  #consume(bytes: Buffer): [decoded: string, consumed: number] {
    const before = lengthOf(this.#buffer.subarray(0, this.#bufferedLength));
    const needed = typeof before === 'number' ? before : preludeBytes;
    const consumed = Math.min(bytes.length, needed - this.#bufferedLength);
    this.#append(bytes.subarray(0, consumed));
    const frame = this.#buffer.subarray(0, this.#bufferedLength);
    const length = lengthOf(frame);
    if (typeof length === 'string') return [this.#break(length), consumed];
    if (length !== frame.length) return ['', consumed];
    this.#bufferedLength = 0;
    return [this.#read(frame), consumed];
  }

  /**
   * Appends bytes to the buffer. A full buffer is doubled, so that a frame that arrives in many
   * small chunks isn't copied for each chunk.
   */
  #append(bytes: Buffer): void {
    const length = this.#bufferedLength + bytes.length;
    if (length > this.#buffer.length) {
      const grown = Buffer.alloc(Math.max(length, this.#buffer.length * 2, bufferBytesMin));
      this.#buffer.copy(grown, 0, 0, this.#bufferedLength);
      this.#buffer = grown;
    }
    bytes.copy(this.#buffer, this.#bufferedLength);
    this.#bufferedLength = length;
  }

  #read(frame: Buffer): string {
    const end = frame.length - checksumBytes;
    if (crc32(frame.subarray(0, end)) !== frame.readUInt32BE(end)) {
      return this.#break('a frame with a wrong checksum');
    }
    const headersEnd = preludeBytes + frame.readUInt32BE(4);
    const headers = readHeaders(frame.subarray(preludeBytes, headersEnd));
    if (headers === undefined) return this.#break('a frame with invalid headers');
    return writeEvent(headers, frame.toString('utf8', headersEnd, end));
  }

  #break(problem: string): string {
    this.#isBroken = true;
    this.#buffer = Buffer.alloc(0);
    this.#bufferedLength = 0;
    return eventText(brokenFrame, JSON.stringify({ message: `The provider sent ${problem}.` }));
  }
}

/**
 * Returns the length of the frame, or what is wrong with the frame; undefined until the prelude is
 * complete.
 */
function lengthOf(bytes: Buffer): number | string | undefined {
  if (bytes.length < preludeBytes) return undefined;
  if (crc32(bytes.subarray(0, 8)) !== bytes.readUInt32BE(8)) {
    return 'a frame with a wrong checksum';
  }
  const length = bytes.readUInt32BE(0);
  if (length > eventBytesMax) return `an event of more than ${eventBytesMax} bytes`;
  const isPossible = length >= frameBytesMin && bytes.readUInt32BE(4) <= length - frameBytesMin;
  return isPossible ? length : 'a frame with an invalid length';
}

/**
 * The length of a header's value in bytes, by type. Byte arrays and strings start with their own
 * length.
 */
const valueBytes = [0, 0, 1, 2, 4, 8, undefined, undefined, 8, 16];
const textType = 7;
const bytesType = 6;

/**
 * Reads the headers with string values, because no others are needed. Returns undefined if a header
 * is invalid.
 */
function readHeaders(bytes: Buffer): ReadonlyMap<string, string> | undefined {
  const headers = new Map<string, string>();
  let at = 0;
  while (at < bytes.length) {
    const nameEnd = at + 1 + bytes.readUInt8(at);
    const type = bytes[nameEnd];
    if (type === undefined) return undefined;
    const isLong = type === textType || type === bytesType;
    const valueAt = nameEnd + (isLong ? 3 : 1);
    if (valueAt > bytes.length) return undefined;
    const length = isLong ? bytes.readUInt16BE(nameEnd + 1) : valueBytes[type];
    if (length === undefined || valueAt + length > bytes.length) return undefined;
    if (type === textType) {
      const value = bytes.toString('utf8', valueAt, valueAt + length);
      headers.set(bytes.toString('utf8', at + 1, nameEnd), value);
    }
    at = valueAt + length;
  }
  return headers;
}

function writeEvent(headers: ReadonlyMap<string, string>, payload: string): string {
  const kind = headers.get(':message-type');
  if (kind === 'exception') {
    return eventText(headers.get(':exception-type') ?? 'exception', payload || '{}');
  }
  // An error that isn't an API exception has its code and message in the headers.
  if (kind === 'error') {
    const code = headers.get(':error-code');
    return eventText('error', JSON.stringify({ code, message: headers.get(':error-message') }));
  }
  return eventText(headers.get(':event-type') ?? 'unnamed', payload);
}

/**
 * Writes an event. A line break would end the data field, so each line of data gets its own field.
 * In JSON, a line break can only be between two tokens, so this doesn't change the data.
 */
function eventText(name: string, data: string): string {
  const lines = data.replaceAll(/\r\n|\r|\n/g, '\ndata: ');
  return `event: ${name.replaceAll(/\s+/g, ' ')}\ndata: ${lines}\n\n`;
}
