const alphabet = '0123456789abcdefghijklmnopqrstuvwxyz';

/**
 * Returns uniformly random lowercase letters and digits, safe in URLs, file names, and headers. 36
 * doesn't divide 256, so bytes above 251 are discarded to avoid bias.
 */
export function randomText(length: number): string {
  let text = '';
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      if (byte < 252 && text.length < length) text += alphabet[byte % 36];
    }
  }
  return text;
}

/**
 * Creates a request ID, which appears in `x-request-id`, the log, the ledger, and `GET
 * /v1/generation`. It is a version 4 UUID that starts with the time in seconds, followed by 90
 * random bits. IDs from the same time share index pages in the database. Completely random IDs
 * would each touch a different page.
 */
export function newRequestId(now = Date.now()): string {
  return hexSecond(Math.floor(now / 1000)) + crypto.randomUUID().slice(8);
}

let lastSecond = { second: 0, text: '00000000' };

/** Formats a time in seconds as hex digits. Cached, because many requests share a second. */
function hexSecond(second: number): string {
  if (lastSecond.second !== second) {
    // Always 8 digits, because a wrong clock can be before 1970 or after 2106.
    lastSecond = { second, text: (second >>> 0).toString(16).padStart(8, '0') };
  }
  return lastSecond.text;
}

/**
 * Returns the time encoded in a request ID as epoch milliseconds, rounded down to the second.
 * Returns NaN for other text.
 */
export function requestIdTime(requestId: string): number {
  return /^[0-9a-f]{8}-/.test(requestId) ? Number.parseInt(requestId, 16) * 1000 : Number.NaN;
}

const dashes = /-/g;

/** Returns the ID in a chat completion body, which toRequestId can convert back. */
export function completionId(requestId: string): string {
  return `chatcmpl-${requestId.replace(dashes, '')}`;
}

/**
 * Returns the request ID behind a completion, message, response, or log ID. Many tools store only
 * those. Returns other text unchanged.
 */
export function toRequestId(id: string): string {
  const [, hex] = /^(?:chatcmpl-|msg_|resp_|log_)(.{32})$/.exec(id) ?? [];
  return hex === undefined ? id : formatUuid(hex);
}

/** A UUID of any version. */
export const requestIdPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Formats 32 hex digits as a UUID. */
export function formatUuid(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

export function newTenantId(): string {
  return `ten_${randomText(16)}`;
}
