import {
  fieldsOf,
  isNonEmptyString,
  isObject,
  type JsonObject,
  textOf,
} from '../../../core/json.ts';
import type { FailureKind } from '../../dialect.ts';
import { parseExact } from '../exact-json.ts';

/** Reads upstream errors, whose shapes differ between vendors. */

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

/** Returns the message in an error of any shape: an object, a list, or text. */
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
 * Returns the request path that FastAPI puts in `loc`. Its message may be just «Field required».
 */
function pathPrefix({ loc }: JsonObject): string {
  if (!Array.isArray(loc)) return '';
  const segments = loc.map((segment) =>
    typeof segment === 'number' ? `[${segment}]` : `.${isNonEmptyString(segment) ? segment : '?'}`,
  );
  const path = segments.join('').replace(/^\.(?:body\.)?/, '');
  return plainPath.test(path) ? `${path}: ` : '';
}

/** Returns the first error below a heading such as «Validation Error». */
function listedDetail({ errors }: JsonObject, heading: string, depth: number): string {
  const listed = findMessage(errors, depth + 1) ?? firstSentence(errors, depth);
  if (listed === undefined || heading.includes(listed)) return '';
  return `${/[.!?:]$/.test(heading) ? '' : ':'} ${listed}`;
}

/** A server that forwards another's error may put its JSON in place of the message. */
function messageInText(text: string, depth: number): string | undefined {
  const quoted = /^[{[]/.test(text) ? parseExact(text) : undefined;
  return quoted === undefined ? text || undefined : findMessage(quoted, depth + 1);
}

/** Returns the first text of several words, for errors of an unknown shape. */
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
 * Returns the provider's message, which OpenRouter puts in `raw`; its own only says that a provider
 * failed.
 */
function quotedMessage({ raw }: JsonObject): string | undefined {
  const quoted = findMessage(raw);
  return quoted?.startsWith('<') ? undefined : quoted;
}

/** Matches only possible field names, not text that someone put into a field. */
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

/** Returns an error's name, which Amazon may write between a namespace and a URL. */
function shapeName(name: string): string {
  return name.replaceAll(/^[^#:]*#|:.*$/g, '');
}

/**
 * Classifies upstream errors, which decides where a failed request goes next. Codes come before the
 * status, because the status often says less.
 */

/** Codes with one meaning regardless of the status. */
const decisiveCodes: ReadonlyMap<string, FailureKind> = new Map([
  ['insufficient_quota', 'quota'],
  ['exceeded_current_quota_error', 'quota'],
  ['billing_hard_limit_reached', 'quota'],
  ['billing_not_active', 'quota'],
  ['enforced_spend_limit_reached', 'quota'],
  ['insufficient_balance', 'quota'],
  ['insufficient_user_quota', 'quota'],
  ['organization_restricted', 'quota'],
  // Groq's spending limit, reported with 400.
  ['blocked_api_access', 'quota'],
  ['arrearage', 'quota'],
  ['accountoverdueerror', 'quota'],
  ['invalid_api_key', 'credential'],
  ['api_key_invalid', 'credential'],
  ['content_filter', 'request'],
  ['content_policy_violation', 'request'],
  ['responsibleaipolicyviolation', 'request'],
  ['context_length_exceeded', 'request'],
  // The model wrote output that Groq itself rejects. The next attempt may succeed.
  ['tool_use_failed', 'server'],
  ['json_validate_failed', 'server'],
  ['output_parse_failed', 'server'],
  // Amazon sends these with 400 or 429, as if the request or its rate were at fault.
  ['servicequotaexceededexception', 'quota'],
  ['expiredtokenexception', 'credential'],
  ['incompletesignatureexception', 'credential'],
  ['modelnotreadyexception', 'overloaded'],
  ['throttlingexception', 'rate_limited'],
]);

/** Codes with which OpenAI ends a response because the request itself is invalid. */
const invalidInputCodes = [
  ...['invalid_prompt', 'bio_policy', 'misalignment_policy_violation'],
  ...['invalid_image', 'invalid_image_format', 'invalid_image_mode', 'invalid_image_url'],
  ...['invalid_base64_image', 'image_too_large', 'image_too_small', 'image_parse_error'],
  ...['image_content_policy_violation', 'image_file_too_large', 'empty_image_file'],
  ...['unsupported_image_media_type', 'failed_to_download_image', 'image_file_not_found'],
];

/** Codes and types that count only if there is no status, as in a stream. */
const fallbackCodes: ReadonlyMap<string, FailureKind> = new Map([
  ['invalid_request_error', 'request'],
  ['bad_request_error', 'request'],
  ['badrequesterror', 'request'],
  ['invalid_argument', 'request'],
  ['model_not_found', 'request'],
  ['not_found_error', 'request'],
  ['authentication_error', 'credential'],
  ['permission_error', 'credential'],
  ['unauthenticated', 'credential'],
  ['permission_denied', 'credential'],
  ['rate_limit_exceeded', 'rate_limited'],
  ['rate_limit_error', 'rate_limited'],
  ['ratelimitreached', 'rate_limited'],
  ['resource_exhausted', 'rate_limited'],
  ['overloaded_error', 'overloaded'],
  ['overloaded', 'overloaded'],
  ['unavailable', 'overloaded'],
  ['unavailable_error', 'overloaded'],
  ['timeout', 'timeout'],
  ['timeout_error', 'timeout'],
  ['deadline_exceeded', 'timeout'],
  ['validationexception', 'request'],
  ['resourcenotfoundexception', 'request'],
  ['accessdeniedexception', 'credential'],
  ['unrecognizedclientexception', 'credential'],
  ['serviceunavailableexception', 'overloaded'],
  ['modeltimeoutexception', 'timeout'],
  ...invalidInputCodes.map((code): [string, FailureKind] => [code, 'request']),
]);

/** Error numbers of MiniMax and Baidu, which come with status 200. */
export const kindsByNumericCode: ReadonlyMap<number, FailureKind> = new Map([
  [1001, 'timeout'],
  [1002, 'rate_limited'],
  [1039, 'rate_limited'],
  [1041, 'rate_limited'],
  [1004, 'credential'],
  [2049, 'credential'],
  [1008, 'quota'],
  [2056, 'quota'],
  [1026, 'request'],
  [1027, 'request'],
  [1042, 'request'],
  [2013, 'request'],
  [17, 'quota'],
  [18, 'rate_limited'],
  [19, 'quota'],
  [110, 'credential'],
  [111, 'credential'],
  [336003, 'request'],
  [336100, 'overloaded'],
]);

/** Anchored, so that request text quoted in an error can't pass for an invalid credential. */
const invalidKey = /^(?:incorrect api key provided|api key not valid|invalid api key)/i;
/** xAI rejects content with 403, as if the account were at fault. */
const refusedContent = /^content violates usage guidelines/i;
const insufficientFunds = new RegExp(
  [
    'balance is insufficient',
    'insufficient (?:account )?(?:balance|credits?|funds)',
    'monthly spending limit',
    'credits are depleted',
    '余额不足',
  ].join('|'),
  'i',
);
/**
 * Anthropic and Google send these with 400, as if the request were at fault, and without a code.
 */
export const closedAccount = new RegExp(
  [
    '^your credit balance is too low',
    '^you have reached your specified (?:workspace )?api usage limits',
    '^this organization has been disabled',
    '^user location is not supported for the api use',
    // After another sentence, but not inside a quotation.
    '^[^"“`]*please enable billing on your project',
  ].join('|'),
  'i',
);

/**
 * Statuses about how or when a request was sent, such as a wrong URL or a proxy, not its content.
 */
const nonRequestStatuses: ReadonlySet<number> = new Set([
  405, 406, 407, 409, 421, 424, 425, 426, 499,
]);

function kindOfStatus(status: number): FailureKind {
  if (status === 401 || status === 403) return 'credential';
  if (status === 402) return 'quota';
  if (status === 408 || status === 504 || status === 524) return 'timeout';
  if (status === 429) return 'rate_limited';
  if (status === 498 || status === 503 || status === 529) return 'overloaded';
  return status >= 400 && status < 500 && !nonRequestStatuses.has(status) ? 'request' : 'server';
}

/**
 * Recognizes daily quotas, which Gemini and Bedrock report with the same status and code as
 * per-minute limits.
 */
function isDailyQuota({ message = '', details }: UpstreamErrorInfo): boolean {
  const isDailyTokenLimit = /^too many tokens per day/i.test(message);
  return isDailyTokenLimit || /"quotaId":"[^"]*PerDay/.test(JSON.stringify(details));
}

function firstMatch(
  codes: readonly string[],
  kinds: ReadonlyMap<string, FailureKind>,
): FailureKind | undefined {
  return codes.map((code) => kinds.get(code)).find((kind) => kind !== undefined);
}

export function kindOf(problem: UpstreamErrorInfo, status: number | null): FailureKind {
  const { codes, message = '' } = problem;
  if (isDailyQuota(problem)) return 'quota';
  const decided = firstMatch(codes, decisiveCodes);
  if (decided !== undefined) return decided;
  if ((status === null || status < 500) && invalidKey.test(message)) return 'credential';
  if (status === 400 && closedAccount.test(message)) return 'quota';
  if (problem.isModeration || refusedContent.test(message)) return 'request';
  // Fireworks returns 412 if its bill hasn't been paid.
  const isRefusal = status === 403 || status === 412 || status === 429;
  if (isRefusal && insufficientFunds.test(message)) return 'quota';
  if (status !== null) return kindOfStatus(status);
  return firstMatch(codes, fallbackCodes) ?? 'server';
}

/** The longest plausible wait: no rate limit lasts longer than a day. */
const waitSecondsMax = 86_400;

const unitSeconds = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** Reads `12ms`, `1.5s`, `6m0s`, `1h2m`, or plain seconds. Returns null for anything else. */
function readDuration(text: string): number | null {
  const trimmed = text.trim();
  if (/^\d{1,12}(?:\.\d{1,12})?$/.test(trimmed)) return Number(trimmed);
  if (!/^(?:\d{1,12}(?:\.\d{1,12})?(?:ms|[smhd]))+$/.test(trimmed)) return null;
  let seconds = 0;
  for (const [, amount, unit] of trimmed.matchAll(/([\d.]+)(ms|[smhd])/g)) {
    seconds += Number(amount) * unitSeconds[unit as keyof typeof unitSeconds];
  }
  return seconds;
}

function readWait(text: string | null, nowMs: number): number | null {
  if (text === null) return null;
  const seconds = readDuration(text);
  if (seconds !== null) return seconds;
  // A date has letters or colons. Without this check, Date.parse reads "-5" as a year.
  const dateMs = /[a-z]|:/i.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(dateMs) ? null : Math.max(0, (dateMs - nowMs) / 1000);
}

/**
 * Reads when OpenAI's request and token limits reset. The exhausted one counts; if none is reported
 * as exhausted, the shorter wait does.
 */
function readResets(headers: Pick<Headers, 'get'>, nowMs: number): number | null {
  const resets = ['requests', 'tokens'].flatMap((limit) => {
    const wait = readWait(headers.get(`x-ratelimit-reset-${limit}`), nowMs);
    const isUsedUp = headers.get(`x-ratelimit-remaining-${limit}`)?.trim() === '0';
    return wait === null ? [] : [{ wait, isUsedUp }];
  });
  if (resets.length === 0) return null;
  const usedUp = resets.filter(({ isUsedUp }) => isUsedUp).map(({ wait }) => wait);
  return usedUp.length > 0 ? Math.max(...usedUp) : Math.min(...resets.map(({ wait }) => wait));
}

/** Reads Gemini's wait, which is a RetryInfo in the error's details instead of a header. */
function readRetryInfo(details: readonly unknown[]): number | null {
  const delays = details.map((detail) => fieldsOf(detail).retryDelay);
  return readDuration(textOf(delays.find((delay) => delay !== undefined)));
}

export function readRetryAfter(
  headers: Pick<Headers, 'get'> | null,
  details: readonly unknown[],
  isRateLimit: boolean,
  nowMs: number,
): number | null {
  const exact = readDuration(headers?.get('retry-after-ms') ?? '');
  const wait =
    (exact === null ? null : exact / 1000) ??
    readWait(headers?.get('retry-after') ?? null, nowMs) ??
    readRetryInfo(details) ??
    (headers !== null && isRateLimit ? readResets(headers, nowMs) : null);
  return wait === null ? null : Math.min(wait, waitSecondsMax);
}
