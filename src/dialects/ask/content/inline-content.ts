/**
 * Checks pictures, sounds and documents that a request has as base64. What is not base64 is refused
 * here: an upstream would refuse it later in other words, or ignore it and answer all the same.
 */
import { invalidRequest } from '../../../core/errors.ts';
import { readDataUrl } from './data-url.ts';

export function checkBase64(text: string, param: string): void {
  if (/^[\s=]*$/.test(text)) throw invalidRequest(`${param} is empty.`, param);
  if (isOneLine(text) || isInLines(text)) return;
  throw invalidRequest(`${param} is not valid base64.`, param);
}

const pieceLength = 64 * 1024;
/** Every piece is decoded into this buffer only to learn its length; the bytes are not used. */
const unread = Buffer.alloc((pieceLength / 4) * 3);

/**
 * Whether a text is base64 without line breaks, in either alphabet, with or without padding. The
 * runtime skips characters that are not base64, so that bytes are missing from what it decodes;
 * checking each character ourselves takes ten times as long.
 */
function isOneLine(text: string): boolean {
  const length = text.length - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0);
  // A single last letter has only six bits, and a byte needs eight.
  if (length % 4 === 1) return false;
  // The runtime reads only the lower byte of a character beyond Latin-1, which may be a letter.
  if (Buffer.byteLength(text) !== text.length) return false;
  for (let at = 0; at < length; at += pieceLength) {
    const letters = Math.min(pieceLength, length - at);
    const bytes = unread.write(text.slice(at, at + letters), 'base64');
    if (bytes !== Math.floor((letters * 3) / 4)) return false;
  }
  return true;
}

/** Whether a text is base64 in lines, as in mails. Removing the breaks ourselves is far slower. */
function isInLines(text: string): boolean {
  try {
    return atob(text) !== '';
  } catch {
    return false;
  }
}

/** Refuses a `data:` URL that cannot be read; other addresses are not checked. */
export function checkDataUrl(url: string, param: string): void {
  if (!/^data:/i.test(url)) return;
  const inline = readDataUrl(url);
  if (inline) checkBase64(inline.base64, param);
  else throw invalidRequest(`${param} is no data: URL that can be read.`, param);
}

/** An address, which some servers take in place of the bytes. */
const address = /^[^!-~]*[a-z][a-z\d+.-]{1,30}:/i;

/** Checks bytes given as base64 or as a `data:` URL; another address passes. */
export function checkBytes(text: string, param: string): void {
  if (address.test(text)) checkDataUrl(text, param);
  else checkBase64(text, param);
}

/** Bytes or their address as an address. Bytes without a type are taken for a PDF. */
export function addressOfBytes(text: string): string {
  return address.test(text) ? text : `data:application/pdf;base64,${text}`;
}
