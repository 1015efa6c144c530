/**
 * Turns Amazon's event stream, `application/vnd.amazon.eventstream`, into the text of server-sent
 * events, so that code that reads, records or replays an answer has one kind of stream to know.
 *
 * A frame is a length, the length of its headers, a checksum of these two, the headers, the payload
 * and a checksum of everything before it; numbers have their highest byte first.
 */
import { crc32 } from 'node:zlib';
import { eventBytesMax } from '../../../core/bounds.ts';

const preludeBytes = 12;
const checksumBytes = 4;
const frameBytesMin = preludeBytes + checksumBytes;

/** The first size of the buffer for a frame that is not complete yet. */
const bufferBytesMin = 4 * 1024;

/** The event that stands for an unreadable frame. Nothing after such a frame is read. */
export const brokenFrame = 'brokenFrame';

export function isFramed({ headers }: { readonly headers: Pick<Headers, 'get'> }): boolean {
  return /^application\/vnd\.amazon\.eventstream/i.test(headers.get('content-type') ?? '');
}

/** Used in place of a `TextDecoder`. It never throws: a broken frame becomes an event as well. */
export class FrameDecoder {
  /** The beginning of a frame whose rest is to come. */
  #buffer = Buffer.alloc(0);
  #bufferedLength = 0;
  #isBroken = false;

  /** A frame that is incomplete when the bytes end is dropped. */
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

  /** Adds bytes to the kept frame: first up to the end of its prelude, then to its own end. */
  #consume(bytes: Buffer): [said: string, taken: number] {
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

  /** Grows by doubling, so that a frame in many small pieces is not copied again for each. */
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
      return this.#break('a frame whose checksum is wrong');
    }
    const headersEnd = preludeBytes + frame.readUInt32BE(4);
    const headers = readHeaders(frame.subarray(preludeBytes, headersEnd));
    if (headers === undefined) return this.#break('a frame whose headers cannot be read');
    return writeEvent(headers, frame.toString('utf8', headersEnd, end));
  }

  #break(what: string): string {
    this.#isBroken = true;
    this.#buffer = Buffer.alloc(0);
    this.#bufferedLength = 0;
    return eventText(brokenFrame, JSON.stringify({ message: `The upstream sent ${what}.` }));
  }
}

/** The length of the frame, or a text that says why it is broken; undefined without a prelude. */
function lengthOf(bytes: Buffer): number | string | undefined {
  if (bytes.length < preludeBytes) return undefined;
  if (crc32(bytes.subarray(0, 8)) !== bytes.readUInt32BE(8)) {
    return 'a frame whose checksum is wrong';
  }
  const length = bytes.readUInt32BE(0);
  if (length > eventBytesMax) return `an event of more than ${eventBytesMax} bytes`;
  const isPossible = length >= frameBytesMin && bytes.readUInt32BE(4) <= length - frameBytesMin;
  return isPossible ? length : 'a frame of an impossible length';
}

/** The length of a value by the number of its type; texts and bytes carry their own length. */
const valueBytes = [0, 0, 1, 2, 4, 8, undefined, undefined, 8, 16];
const textType = 7;
const bytesType = 6;

/** The headers whose values are texts: only those matter. Undefined if they cannot be read. */
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
  // An error that is no exception of the API has its code and message in the headers.
  if (kind === 'error') {
    const code = headers.get(':error-code');
    return eventText('error', JSON.stringify({ code, message: headers.get(':error-message') }));
  }
  return eventText(headers.get(':event-type') ?? 'unnamed', payload);
}

/** A line break would end the event's field. In JSON it can only stand between two tokens. */
function eventText(name: string, data: string): string {
  const lines = data.replaceAll(/\r\n|\r|\n/g, '\ndata: ');
  return `event: ${name.replaceAll(/\s+/g, ' ')}\ndata: ${lines}\n\n`;
}
