import { fileTypeOf } from '../../../core/media/file-type.ts';

/** The picture, sound or document inside a `data:` URL. */
interface InlineData {
  readonly mediaType: string;
  readonly base64: string;
}

const head = /^data:([^;,]*)((?:;[^;,]*)*),/i;

/** Undefined for other addresses, and for a `data:` URL that cannot be read. */
export function readDataUrl(url: string): InlineData | undefined {
  // Only the head is searched: what follows may be megabytes.
  const match = head.exec(url.slice(0, 4096));
  if (!match) return undefined;
  const [whole, mediaType, options = ''] = match;
  const content = url.slice(whole.length);
  const isBase64 = /;base64$/i.test(options);
  const base64 = isBase64 ? content : encodeText(content);
  if (base64 === undefined) return undefined;
  return { mediaType: typeOf(mediaType?.toLowerCase() || 'text/plain', base64), base64 };
}

/**
 * Pictures often come with a wrong media type. OpenAI overlooks that, but Anthropic refuses a type
 * that the bytes contradict, and Gemini refuses `image/jpg`. Browsers have no type for some files.
 */
function typeOf(named: string, base64: string): string {
  if (!named.startsWith('image/') && named !== 'application/octet-stream') return named;
  const seen = fileTypeOf(Buffer.from(base64.slice(0, 16), 'base64'));
  return seen ?? (named === 'image/jpg' ? 'image/jpeg' : named);
}

function encodeText(content: string): string | undefined {
  try {
    return Buffer.from(decodeURIComponent(content)).toString('base64');
  } catch {
    return undefined;
  }
}
