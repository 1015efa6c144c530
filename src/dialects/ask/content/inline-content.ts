/**
 * Pictures, sounds and documents that stand in a request as base64. What is none is refused here:
 * an upstream would say so later, in other words, or hear nothing and answer all the same.
 */
import { invalidRequest } from '../../../core/errors.ts';
import { readDataUrl } from './data-url.ts';

export function checkBase64(text: string, param: string): void {
  if (/^[\s=]*$/.test(text)) throw invalidRequest(`${param} is empty.`, param);
  if (isOneLine(text) || isInLines(text)) return;
  throw invalidRequest(`${param} is not valid base64.`, param);
}

const pieceLength = 64 * 1024;
/** What a piece says is not kept, only how much it is. */
const unread = Buffer.alloc((pieceLength / 4) * 3);

/**
 * Of either alphabet, as most clients write it. Padding may be missing. The runtime passes over
 * what is no letter, so that a byte is missing; looking at the letters ourselves takes ten times
 * as long.
 */
function isOneLine(text: string): boolean {
  const length = text.length - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0);
  // One letter that is left over has six bits, and a byte needs eight.
  if (length % 4 === 1) return false;
  // Of a character beyond Latin-1 the runtime reads the lower byte, which may be a letter's.
  if (Buffer.byteLength(text) !== text.length) return false;
  for (let at = 0; at < length; at += pieceLength) {
    const letters = Math.min(pieceLength, length - at);
    const bytes = unread.write(text.slice(at, at + letters), 'base64');
    if (bytes !== Math.floor((letters * 3) / 4)) return false;
  }
  return true;
}

/** With its lines broken, as mail programs do. Taking out the breaks ourselves takes far longer. */
function isInLines(text: string): boolean {
  try {
    return atob(text) !== '';
  } catch {
    return false;
  }
}

/** Other addresses are not looked at. */
export function checkDataUrl(url: string, param: string): void {
  if (!/^data:/i.test(url)) return;
  const inline = readDataUrl(url);
  if (inline) checkBase64(inline.base64, param);
  else throw invalidRequest(`${param} is no data: URL that can be read.`, param);
}

/** Some servers take an address in place of the bytes. */
const address = /^[^!-~]*[a-z][a-z\d+.-]{1,30}:/i;

/** Bytes as base64 or as a `data:` URL, or where they are. */
export function checkBytes(text: string, param: string): void {
  if (address.test(text)) checkDataUrl(text, param);
  else checkBase64(text, param);
}

/** The same as an address. Bytes that nobody named a type of are a PDF's. */
export function addressOfBytes(text: string): string {
  return address.test(text) ? text : `data:application/pdf;base64,${text}`;
}
