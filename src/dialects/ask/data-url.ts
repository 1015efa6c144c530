/** The picture, sound or document inside a `data:` URL. */
interface InlineData {
  readonly mediaType: string;
  readonly base64: string;
}

const head = /^data:([^;,]*)((?:;[^;,]*)*),/i;

/** Undefined when it is no `data:` URL, or none that can be read. */
export function readDataUrl(url: string): InlineData | undefined {
  // Only the head is searched: what follows may be megabytes.
  const match = head.exec(url.slice(0, 4096));
  if (!match) return undefined;
  const [whole, mediaType, options = ''] = match;
  const content = url.slice(whole.length);
  const isBase64 = /;base64$/i.test(options);
  const base64 = isBase64 ? content : encodeText(content);
  if (base64 === undefined) return undefined;
  return { mediaType: mediaType?.toLowerCase() || 'text/plain', base64 };
}

function encodeText(content: string): string | undefined {
  try {
    return Buffer.from(decodeURIComponent(content)).toString('base64');
  } catch {
    return undefined;
  }
}
