import { invalidRequest } from '../../../core/errors.ts';
import { fileTypeOf } from '../../../core/media/images.ts';
import type { Prompt, Turn, UserPart } from '../../../core/prompt.ts';
import type { FetchedImages } from '../../dialect.ts';

/** The image, audio, or document inside a `data:` URL. */
interface InlineData {
  readonly mediaType: string;
  readonly base64: string;
}

const dataUrlPrefix = /^data:([^;,]*)((?:;[^;,]*)*),/i;

/** Reads a `data:` URL. Returns undefined for other URLs and for invalid `data:` URLs. */
export function readDataUrl(url: string): InlineData | undefined {
  // Search only the start, because the content may be megabytes long.
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
 * Corrects the media type of an image, which is often wrong. OpenAI ignores a wrong type, but
 * Anthropic rejects a type that contradicts the bytes, and Gemini rejects `image/jpg`. Browsers
 * send `application/octet-stream` for files whose type they don't know.
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

// Validates base64 in requests. An upstream would reject invalid base64 later with a different
// message, or ignore it and answer anyway.

export function checkBase64(text: string, param: string): void {
  if (/^[\s=]*$/.test(text)) throw invalidRequest(`${param} is empty.`, param);
  if (isSingleLineBase64(text) || isWrappedBase64(text)) return;
  throw invalidRequest(`${param} is not valid base64.`, param);
}

const chunkLength = 64 * 1024;
/** Each chunk is decoded into this buffer only to learn its length. The bytes aren't used. */
const scratch = Buffer.alloc((chunkLength / 4) * 3);

/**
 * Returns true for base64 without line breaks, in either alphabet, with or without padding. The
 * runtime skips invalid characters, so invalid text decodes to fewer bytes. Checking each character
 * would take 10 times as long.
 */
function isSingleLineBase64(text: string): boolean {
  const length = text.length - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0);
  // A single character after the last group of 4 has only 6 bits, and a byte needs 8.
  if (length % 4 === 1) return false;
  // The runtime reads only the low byte of a character beyond Latin-1, and that byte may be valid
  // base64.
  if (Buffer.byteLength(text) !== text.length) return false;
  for (let index = 0; index < length; index += chunkLength) {
    const characters = Math.min(chunkLength, length - index);
    const bytes = scratch.write(text.slice(index, index + characters), 'base64');
    if (bytes !== Math.floor((characters * 3) / 4)) return false;
  }
  return true;
}

/**
 * Returns true for base64 that is split into lines, as in emails. Removing the line breaks first
 * would be far slower.
 */
function isWrappedBase64(text: string): boolean {
  try {
    return atob(text) !== '';
  } catch {
    return false;
  }
}

/** Throws 400 for a `data:` URL that can't be read. Other URLs aren't checked. */
export function checkDataUrl(url: string, param: string): void {
  if (!/^data:/i.test(url)) return;
  const inline = readDataUrl(url);
  if (inline) checkBase64(inline.base64, param);
  else throw invalidRequest(`${param} is not a valid data: URL.`, param);
}

/** Like `checkDataUrl`, for an image. Some clients send a PDF as an image. */
export function checkImageUrl(url: string, param: string): void {
  checkDataUrl(url, param);
  const inline = readDataUrl(url);
  if (inline) checkImage(inline.mediaType, inline.base64, param);
}

const imageTypes = /^(?:image\/.+|application\/(?:pdf|octet-stream))$/;

/** Throws 400 for a media type that is no image, unless the bytes are one. */
export function checkImage(mediaType: string, base64: string, param: string): void {
  if (imageTypes.test(mediaType.toLowerCase())) return;
  if (fileTypeOf(Buffer.from(base64.slice(0, 16), 'base64'))) return;
  throw invalidRequest(`${param} must be an image, not ${mediaType}.`, param);
}

/** The start of a URL, which some servers accept instead of base64. */
const urlStart = /^[^!-~]*[a-z][a-z\d+.-]{1,30}:/i;

/** Validates base64 or a `data:` URL. Other URLs pass. */
export function checkBytes(text: string, param: string): void {
  if (urlStart.test(text)) checkDataUrl(text, param);
  else checkBase64(text, param);
}

/** Returns a `data:` URL for base64, whose type is assumed to be PDF. Returns a URL unchanged. */
export function dataUrlOf(text: string): string {
  return urlStart.test(text) ? text : `data:application/pdf;base64,${text}`;
}

/** Replaces the URLs of fetched images with `data:` URLs, in user messages and tool results. */
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

/** Returns a document's text with its title above it, for vendors without a title field. */
export function documentText(text: string, title: string | undefined): string {
  return title ? `${title}\n\n${text}` : text;
}
