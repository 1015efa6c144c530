/**
 * Server-sent events. Reads them as real providers send them: some providers violate the standard.
 * The input is decoded text, which may be split anywhere. The output is complete messages.
 */
import { eventBytesMax, linesWithoutEventMax } from '../core/bounds.ts';
import type { SseMessage } from './dialect.ts';
import { MalformedAnswer, NoContentError } from './failure.ts';

const tooLarge = `an event of more than ${eventBytesMax} characters`;

/** A comment that keeps the connection open. It may precede the first event. */
export const keepAlive = ': keep-alive\n\n';

/**
 * Escapes characters that JSON allows in strings but at which Python's `splitlines` splits lines.
 * Clients that use it to read streams would lose text. Searching for each character is faster than
 * a regular expression, and a text can have a million of them.
 */
export function escapeLineBreaks(events: string): string {
  let escaped = events;
  for (const [character, replacement] of lineBreakEscapes)
    if (escaped.includes(character)) escaped = escaped.replaceAll(character, replacement);
  return escaped;
}

const lineBreakEscapes = [
  ['\u0085', '\\u0085'],
  ['\u2028', '\\u2028'],
  ['\u2029', '\\u2029'],
] as const;

const lineFeedCode = 10;
const byteOrderMark = 0xfeff;

export class EventStreamReader {
  /** The incomplete last line. New text is appended to it without searching it again. */
  #line = '';
  #event: string | null = null;
  #data: string | null = null;
  /** Lines since the last text with a message. */
  #linesWithoutEvent = 0;
  /** Characters in the complete lines of the current event. */
  #size = 0;
  /**
   * JSON outside of events, where Google and others may put an error. Emitted as a message at the
   * end of the stream.
   */
  #rawJson = '';
  #isAtStart = true;
  /**
   * True if the last text ended with `\r`. A `\n` at the start of the next text then belongs to the
   * same line break.
   */
  #endsWithReturn = false;

  push(text: string): SseMessage[] {
    const messages: SseMessage[] = [];
    let at = this.#skipHead(text);
    let lineFeed = text.indexOf('\n', at);
    let carriage = text.indexOf('\r', at);
    while (lineFeed !== -1 || carriage !== -1) {
      // The fast path for nearly all traffic: one data line and a blank line, with nothing
      // buffered.
      if (carriage === -1 && this.#isBetweenEvents() && text.startsWith('data: ', at)) {
        if (text.charCodeAt(lineFeed + 1) === lineFeedCode && lineFeed > at + 6) {
          if (lineFeed - at > eventBytesMax) throw new MalformedAnswer(tooLarge);
          messages.push({ event: null, data: text.slice(at + 6, lineFeed) });
          at = lineFeed + 2;
          lineFeed = text.indexOf('\n', at);
          continue;
        }
      }
      const isReturn = lineFeed === -1 || (carriage !== -1 && carriage < lineFeed);
      const end = isReturn ? carriage : lineFeed;
      this.#parseLine(this.#line + text.slice(at, end), messages);
      this.#line = '';
      at = end + 1;
      if (isReturn) {
        this.#endsWithReturn = at === text.length;
        if (lineFeed === at) at += 1;
        carriage = text.indexOf('\r', at);
      }
      if (lineFeed !== -1 && lineFeed < at) lineFeed = text.indexOf('\n', at);
    }
    if (messages.length > 0) this.#linesWithoutEvent = 0;
    if (at < text.length) this.#line += text.slice(at);
    if (this.#size + this.#line.length > eventBytesMax) throw new MalformedAnswer(tooLarge);
    return messages;
  }

  /**
   * Ends the input and returns the last messages. Some servers omit the last blank line or line
   * break.
   */
  end(): SseMessage[] {
    const messages: SseMessage[] = [];
    if (this.#line !== '') this.#parseLine(this.#line, messages);
    this.#line = '';
    this.#parseLine('', messages);
    if (this.#rawJson !== '') messages.push({ event: null, data: this.#rawJson });
    this.#rawJson = '';
    return messages;
  }

  #isBetweenEvents(): boolean {
    return this.#line === '' && this.#data === null && this.#event === null && this.#rawJson === '';
  }

  #skipHead(text: string): number {
    if (text === '') return 0;
    let at = 0;
    if (this.#isAtStart) {
      this.#isAtStart = false;
      if (text.charCodeAt(0) === byteOrderMark) at = 1;
    }
    if (this.#endsWithReturn) {
      this.#endsWithReturn = false;
      if (text.charCodeAt(at) === lineFeedCode) at += 1;
    }
    return at;
  }

  #parseLine(line: string, messages: SseMessage[]): void {
    if (++this.#linesWithoutEvent > linesWithoutEventMax)
      throw new NoContentError(`${linesWithoutEventMax} lines without an event`);
    if (line === '') {
      // An event without data has no meaning in any dialect. Some servers send such events as
      // keep-alives.
      if (this.#data) messages.push({ event: this.#event, data: this.#data });
      this.#event = null;
      this.#data = null;
      this.#size = 0;
      return;
    }
    const colon = line.indexOf(':');
    const field = colon === -1 ? line : line.slice(0, colon);
    if (field !== 'data' && field !== 'event' && field !== 'error') {
      this.#appendRawLine(line);
      return;
    }
    this.#rawJson = '';
    this.#size += line.length;
    if (this.#size > eventBytesMax) throw new MalformedAnswer(tooLarge);
    const from = line.startsWith(' ', colon + 1) ? colon + 2 : colon + 1;
    const value = colon === -1 ? '' : line.slice(from);
    // Older llama.cpp servers write `error: {…}` instead of an `event:` line and a `data:` line.
    if (field === 'error') this.#event = field;
    if (field === 'event') this.#event = value;
    else this.#data = this.#data === null ? value : `${this.#data}\n${value}`;
  }

  /** Collects bare JSON, which may span several lines. A later event discards the JSON. */
  #appendRawLine(line: string): void {
    if (this.#rawJson === '' ? !/^[{[]/.test(line) : line.startsWith(':')) return;
    this.#rawJson += `${line}\n`;
    if (this.#rawJson.length > eventBytesMax) throw new MalformedAnswer(tooLarge);
  }
}
