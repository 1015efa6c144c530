import type { FailureKind } from '../../dialect.ts';
import type { UpstreamErrorInfo } from './upstream-error.ts';

// Classifies upstream errors. The kind of an error determines where the failed request is sent
// next. Codes take precedence over the status, because the status is often less specific.

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
  // The model wrote output that Groq rejects. The next attempt may succeed.
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

/** Codes that OpenAI ends a response with because the request itself is invalid. */
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

/** Error numbers that MiniMax and Baidu send with status 200. */
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

/**
 * Matches only the start of a message, so that request text quoted in an error can't be mistaken
 * for an invalid credential.
 */
const invalidKey = /^(?:incorrect api key provided|api key not valid|invalid api key)/i;
/** xAI rejects content with 403, as if the account were at fault. */
const rejectedContent = /^content violates usage guidelines/i;
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
    // May follow another sentence, but not a quotation mark.
    '^[^"“`]*please enable billing on your project',
  ].join('|'),
  'i',
);

/**
 * Statuses caused by how or when a request was sent, such as a wrong URL or a proxy, and not by its
 * content.
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
 * Returns true for an exhausted daily quota, which Gemini and Bedrock report with the same status
 * and code as a per-minute limit.
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

export function kindOf(error: UpstreamErrorInfo, status: number | null): FailureKind {
  const { codes, message = '' } = error;
  if (isDailyQuota(error)) return 'quota';
  const decided = firstMatch(codes, decisiveCodes);
  if (decided !== undefined) return decided;
  if ((status === null || status < 500) && invalidKey.test(message)) return 'credential';
  if (status === 400 && closedAccount.test(message)) return 'quota';
  if (error.isModeration || rejectedContent.test(message)) return 'request';
  // Fireworks returns 412 if the account has an unpaid bill.
  const isRejection = status === 403 || status === 412 || status === 429;
  if (isRejection && insufficientFunds.test(message)) return 'quota';
  if (status !== null) return kindOfStatus(status);
  return firstMatch(codes, fallbackCodes) ?? 'server';
}
