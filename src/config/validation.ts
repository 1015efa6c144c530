export const invalidBaseUrl = 'must be an http(s) URL without a user name, query, or fragment';

/** Returns whether a path can be appended to the URL. */
export function isValidBaseUrl(text: string): boolean {
  const url = URL.parse(text);
  // Search the text itself: `url.search` is empty for a final `?`, but a path appended to that
  // would become a query.
  return url !== null && url.username === '' && !/[?#]/.test(text);
}

/** The HTTP client sets these for each request. A second value would allow request smuggling. */
const bodyHeaders = /^(?:content-length|transfer-encoding)$/i;

/** Returns whether a header can be sent. Otherwise every request would fail. */
export function isValidHeader(name: string, value: string): boolean {
  // Clients and servers disagree on the encoding of non-ASCII characters.
  if (bodyHeaders.test(name) || !/^[\t\n\r\x20-\x7e]*$/.test(value)) return false;
  try {
    new Headers([[name, value]]);
    return true;
  } catch {
    return false;
  }
}

export const invalidKeyMessage =
  'has characters that are not valid in a header; check that it was copied correctly';
