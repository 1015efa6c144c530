import { invalidRequest } from '../../../core/errors.ts';
import { fileTypeOf } from '../../../core/media/images.ts';
import type { Prompt, Turn, UserPart } from '../../../core/prompt.ts';
import type { FetchedImages } from '../../dialect.ts';

/** The picture, sound or document inside a `data:` URL. */
interface InlineData {
  readonly mediaType: string;
  readonly base64: string;
}

const dataUrlPrefix = /^data:([^;,]*)((?:;[^;,]*)*),/i;

/** Undefined for other addresses, and for a `data:` URL that cannot be read. */
export function readDataUrl(url: string): InlineData | undefined {
  // Only the head is searched: what follows may be megabytes.
  const match = dataUrlPrefix.exec(url.slice(0, 4096));
  if (!match) return undefined;
  const [prefix, mediaType, options = ''] = match;
  const content = url.slice(prefix.length);
  const isBase64 = /;base64$/i.test(options);
  const base64 = isBase64 ? content : encodeText(content);
  if (base64 === undefined) return undefined;
  return { mediaType: typeOf(mediaType?.toLowerCase() || 'text/plain', base64), base64 };
}

/**
 * Pictures often come with a wrong media type. OpenAI overlooks that, but Anthropic refuses a type
 * that the bytes contradict, and Gemini refuses `image/jpg`. Browsers have no type for some files.
 */
function typeOf(declared: string, base64: string): string {
  if (!declared.startsWith('image/') && declared !== 'application/octet-stream') return declared;
  const detected = fileTypeOf(Buffer.from(base64.slice(0, 16), 'base64'));
  return detected ?? (declared === 'image/jpg' ? 'image/jpeg' : declared);
}

function encodeText(content: string): string | undefined {
  try {
    return Buffer.from(decodeURIComponent(content)).toString('base64');
  } catch {
    return undefined;
  }
}

/**
 * Checks pictures, sounds and documents that a request has as base64. What is not base64 is refused
 * here: an upstream would refuse it later in other words, or ignore it and answer all the same.
 */

export function checkBase64(text: string, param: string): void {
  if (/^[\s=]*$/.test(text)) throw invalidRequest(`${param} is empty.`, param);
  if (isSingleLineBase64(text) || isWrappedBase64(text)) return;
  throw invalidRequest(`${param} is not valid base64.`, param);
}

const pieceLength = 64 * 1024;
/** Every piece is decoded into this buffer only to learn its length; the bytes are not used. */
const scratch = Buffer.alloc((pieceLength / 4) * 3);

/**
 * Whether a text is base64 without line breaks, in either alphabet, with or without padding. The
 * runtime skips characters that are not base64, so that bytes are missing from what it decodes;
 * checking each character ourselves takes ten times as long.
 */
function isSingleLineBase64(text: string): boolean {
  const length = text.length - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0);
  // A single last letter has only six bits, and a byte needs eight.
  if (length % 4 === 1) return false;
  // The runtime reads only the lower byte of a character beyond Latin-1, which may be a letter.
  if (Buffer.byteLength(text) !== text.length) return false;
  for (let at = 0; at < length; at += pieceLength) {
    const letters = Math.min(pieceLength, length - at);
    const bytes = scratch.write(text.slice(at, at + letters), 'base64');
    if (bytes !== Math.floor((letters * 3) / 4)) return false;
  }
  return true;
}

/** Whether a text is base64 in lines, as in mails. Removing the breaks ourselves is far slower. */
function isWrappedBase64(text: string): boolean {
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

/** Replaces addresses by the fetched pictures, in the user's words and in results of tools. */
export function withFetchedImages(prompt: Prompt, images: FetchedImages): Prompt {
  if (images.size === 0) return prompt;
  const fetched = <Part extends UserPart>(part: Part): Part => {
    if (part.kind === 'tool_result') return { ...part, parts: part.parts.map(fetched) };
    return part.kind === 'image' ? { ...part, url: images.get(part.url) ?? part.url } : part;
  };
  const inTurn = (turn: Turn): Turn =>
    turn.role === 'user' ? { ...turn, parts: turn.parts.map(fetched) } : turn;
  return { ...prompt, turns: prompt.turns.map(inTurn) };
}

/** The name of the wish how closely to look at pictures, which only OpenAI can grant. */
export function detailNames({ turns }: Prompt): readonly string[] {
  return turns.some(requestsDetail) ? ['detail'] : [];
}

/** `auto` asks for nothing: it is the default of every model. */
function requestsDetail(turn: Turn): boolean {
  if (turn.role !== 'user') return false;
  return turn.parts.some((part) => part.kind === 'image' && (part.detail ?? 'auto') !== 'auto');
}

/** A text document with its title on top, for vendors that have no field for the title. */
export function documentText(text: string, title: string | undefined): string {
  return title ? `${title}\n\n${text}` : text;
}
