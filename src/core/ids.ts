/** Random texts for identifiers of every kind, and the ids of requests and tenants. */

const alphabet = '0123456789abcdefghijklmnopqrstuvwxyz';

/**
 * Letters and digits of even odds, safe in URLs, file names and headers.
 * 36 symbols do not divide 256, so the few bytes above 251 are thrown away instead of skewing.
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
 * The id of one request: in `x-request-id`, the log, the ledger and `GET /v1/generation`. A UUID of
 * version 4 that begins with the second it was made in, before 90 random bits: so those that end
 * together lie together in the index, where scattered ones would each cost a page of the disk.
 */
export function newRequestId(now = Date.now()): string {
  return hexSecond(Math.floor(now / 1000)) + crypto.randomUUID().slice(8);
}

let lastSecond = { second: 0, text: '00000000' };

/** Formatted once a second, not for every request. */
function hexSecond(second: number): string {
  if (lastSecond.second !== second) {
    // Eight digits whatever the clock says: one that is broken may be before 1970 or beyond 2106.
    lastSecond = { second, text: (second >>> 0).toString(16).padStart(8, '0') };
  }
  return lastSecond.text;
}

/** Epoch milliseconds of the second in which a request id was made; NaN for anything else. */
export function requestIdTime(requestId: string): number {
  return /^[0-9a-f]{8}-/.test(requestId) ? Number.parseInt(requestId, 16) * 1000 : Number.NaN;
}

const dashes = /-/g;

/** The id inside a chat completion body. Tied to the request, so that either finds the other. */
export function completionId(requestId: string): string {
  return `chatcmpl-${requestId.replace(dashes, '')}`;
}

/**
 * The id of the request that another id was made from: many tools keep only the id inside a body,
 * and rows of the log have one, too. Anything else stays as it is.
 */
export function toRequestId(id: string): string {
  const [, hex] = /^(?:chatcmpl-|msg_|resp_|log_)(.{32})$/.exec(id) ?? [];
  return hex === undefined ? id : formatUuid(hex);
}

/** A UUID, of whatever version. */
export const requestIdPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The 32 digits of a UUID as people write them. */
export function formatUuid(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

export function newTenantId(): string {
  return `ten_${randomText(16)}`;
}
