import { fieldsOf, isNonEmptyString, isObject, type JsonObject } from '../../../core/json.ts';
import { parseExact } from '../exact-json.ts';

// Reads upstream errors, whose shapes differ between vendors.

/** The fields that may contain an error's message, the most reliable first. */
const messageNames = [
  'error',
  'message',
  'detail',
  'msg',
  'errors',
  'status_msg',
  'error_msg',
  'Message',
  'reason',
  'title',
];

/** Returns the message in an error of any shape: an object, a list, or a string. */
function findMessage(raw: unknown, depth = 0): string | undefined {
  if (typeof raw === 'string') return messageInText(raw.trim(), depth);
  if (depth > 4) return undefined;
  if (Array.isArray(raw)) return findMessage(raw[0], depth + 1);
  if (!isObject(raw)) return undefined;
  for (const name of messageNames) {
    const found = findMessage(raw[name], depth + 1);
    if (found !== undefined) return `${pathPrefix(raw)}${found}${listedDetail(raw, found, depth)}`;
  }
  return undefined;
}

/**
 * Returns the path of the request field, which FastAPI puts in `loc`. FastAPI's message may be only
 * "Field required".
 */
function pathPrefix({ loc }: JsonObject): string {
  if (!Array.isArray(loc)) return '';
  const segments = loc.map((segment) =>
    typeof segment === 'number' ? `[${segment}]` : `.${isNonEmptyString(segment) ? segment : '?'}`,
  );
  const path = segments.join('').replace(/^\.(?:body\.)?/, '');
  return plainPath.test(path) ? `${path}: ` : '';
}

/**
 * Returns the first error in `errors`, because the message may be only a heading such as
 * "Validation Error".
 */
function listedDetail({ errors }: JsonObject, heading: string, depth: number): string {
  const listed = findMessage(errors, depth + 1) ?? firstSentence(errors, depth);
  if (listed === undefined || heading.includes(listed)) return '';
  return `${/[.!?:]$/.test(heading) ? '' : ':'} ${listed}`;
}

/**
 * Returns the message in a string, which may be JSON if a server forwards another server's error.
 */
function messageInText(text: string, depth: number): string | undefined {
  const quoted = /^[{[]/.test(text) ? parseExact(text) : undefined;
  return quoted === undefined ? text || undefined : findMessage(quoted, depth + 1);
}

/** Returns the first string with several words, for errors of an unknown shape. */
function firstSentence(raw: unknown, depth = 0): string | undefined {
  if (typeof raw === 'string') return /\S\s/.test(raw.trim()) ? raw.trim() : undefined;
  if (depth > 2 || typeof raw !== 'object' || raw === null) return undefined;
  for (const value of Object.values(raw)) {
    const found = firstSentence(value, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * Returns the underlying provider's message, which OpenRouter puts in `raw`. OpenRouter's own
 * message only says that a provider failed.
 */
function quotedMessage({ raw }: JsonObject): string | undefined {
  const quoted = findMessage(raw);
  return quoted?.startsWith('<') ? undefined : quoted;
}

/** Matches only field paths, not other text that a server put there. */
const plainPath = /^[\w.[\]-]{1,100}$/;

export interface UpstreamErrorInfo {
  readonly message: string | undefined;
  /** The request field that the error is about. */
  readonly param: string | undefined;
  /** In lowercase, the most specific first. */
  readonly codes: readonly string[];
  readonly claimedStatus: number | null;
  readonly details: readonly unknown[];
  readonly isModeration: boolean;
}

function readStatus(value: unknown): number | undefined {
  const status = typeof value === 'string' ? Number(value) : value;
  const isStatus = typeof status === 'number' && Number.isInteger(status);
  return isStatus && status >= 400 && status <= 599 ? status : undefined;
}

export function readUpstreamError(
  raw: unknown,
  errorTypeHeader: string | null = null,
): UpstreamErrorInfo {
  const outside = fieldsOf(Array.isArray(raw) ? raw[0] : raw);
  const inside = fieldsOf(outside.error);
  const innermost = fieldsOf(inside.innererror);
  const metadata = fieldsOf(inside.metadata);
  const details = Array.isArray(inside.details) ? inside.details : [inside.details];
  const reasons = details.filter(isObject).flatMap((detail) => [detail.reason, detail.error_code]);
  const innerCodes = [innermost.code, ...reasons, inside.code, inside.type, inside.status];
  const shapeNames = [errorTypeHeader, outside.__type].filter(isNonEmptyString).map(shapeName);
  const codes = [...innerCodes, outside.code, outside.type, outside.error_type, ...shapeNames];
  const claims = [inside.status_code, inside.code, inside.status, outside.code];
  return {
    message: quotedMessage(metadata) ?? findMessage(raw) ?? firstSentence(raw),
    param:
      isNonEmptyString(inside.param) && plainPath.test(inside.param) ? inside.param : undefined,
    codes: codes.filter((code) => typeof code === 'string').map((code) => code.toLowerCase()),
    claimedStatus: claims.map(readStatus).find((status) => status !== undefined) ?? null,
    details,
    isModeration: metadata.flagged_input !== undefined || Array.isArray(metadata.reasons),
  };
}

/** Returns the name of Amazon's error, without the namespace before it and the URL after it. */
function shapeName(name: string): string {
  return name.replaceAll(/^[^#:]*#|:.*$/g, '');
}
