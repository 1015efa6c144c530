/**
 * What went wrong at an upstream, from whatever it sent: no two of them word or shape
 * their errors alike. Codes are asked before the status, because the status often says less.
 */
import { isObject, isText } from '../core/json.ts';
import { parseExact } from './answer/exact-json.ts';
import { readRetryAfter } from './answer/retry-after.ts';
import type { FailureKind, UpstreamFailure } from './dialect.ts';

const messageLengthMax = 500;
/** Of a page that is no JSON, only the beginning can hold its sentence. */
const pageLengthMax = 2_000;

/** Codes that mean one thing whatever the status beside them. */
const decisiveCodes: ReadonlyMap<string, FailureKind> = new Map([
  ['insufficient_quota', 'quota'],
  ['exceeded_current_quota_error', 'quota'],
  ['billing_hard_limit_reached', 'quota'],
  ['billing_not_active', 'quota'],
  ['enforced_spend_limit_reached', 'quota'],
  ['insufficient_balance', 'quota'],
  ['insufficient_user_quota', 'quota'],
  ['organization_restricted', 'quota'],
  ['arrearage', 'quota'],
  ['accountoverdueerror', 'quota'],
  ['invalid_api_key', 'credential'],
  ['api_key_invalid', 'credential'],
  ['content_filter', 'request'],
  ['content_policy_violation', 'request'],
  ['responsibleaipolicyviolation', 'request'],
  ['context_length_exceeded', 'request'],
  // The model wrote a call that its own server rejects: the next attempt may well succeed.
  ['tool_use_failed', 'server'],
  // Amazon says these with 400 or 429, as if the request or its pace were at fault.
  ['servicequotaexceededexception', 'quota'],
  ['expiredtokenexception', 'credential'],
  ['incompletesignatureexception', 'credential'],
  ['modelnotreadyexception', 'overloaded'],
  ['throttlingexception', 'rate_limited'],
]);

/** Codes and types that help only where there is no status, inside a stream. */
const hintingCodes: ReadonlyMap<string, FailureKind> = new Map([
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
]);

/** What MiniMax and Baidu number, in answers of status 200. */
const numberedCodes: ReadonlyMap<unknown, FailureKind> = new Map([
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

/** Anchored: a request whose text is quoted in an error must not pass for a bad credential. */
const badKey = /^(?:incorrect api key provided|api key not valid|invalid api key)/i;
const noMoney = new RegExp(
  [
    'balance is insufficient',
    'insufficient (?:account )?(?:balance|credits?|funds)',
    'monthly spending limit',
    'credits are depleted',
    '余额不足',
  ].join('|'),
  'i',
);
/** Anthropic and Google say so with 400, as if the request were at fault, and in words only. */
export const closedAccount = new RegExp(
  [
    '^your credit balance is too low',
    '^you have reached your specified api usage limits',
    '^this organization has been disabled',
    '^user location is not supported for the api use',
    // After another sentence, but never inside a quotation.
    '^[^"“`]*please enable billing on your project',
  ].join('|'),
  'i',
);

function kindOfStatus(status: number): FailureKind {
  if (status === 401 || status === 403) return 'credential';
  if (status === 402) return 'quota';
  if (status === 408 || status === 504 || status === 524) return 'timeout';
  if (status === 429) return 'rate_limited';
  if (status === 498 || status === 503 || status === 529) return 'overloaded';
  if (status === 409 || status === 424 || status === 425 || status === 499) return 'server';
  return status >= 400 && status < 500 ? 'request' : 'server';
}

/** The sentence in an error of any shape: an object, a list of them, or the text itself. */
function findMessage(raw: unknown, depth = 0): string | undefined {
  if (typeof raw === 'string') return sentenceIn(raw.trim(), depth);
  if (depth > 4) return undefined;
  if (Array.isArray(raw)) return findMessage(raw[0], depth + 1);
  if (!isObject(raw)) return undefined;
  const { error, message, detail, msg, errors, status_msg, error_msg, Message } = raw;
  for (const part of [error, message, detail, msg, errors, status_msg, error_msg, Message]) {
    const found = findMessage(part, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A server that passes on another's error may put all of its JSON where the sentence should be. */
function sentenceIn(text: string, depth: number): string | undefined {
  const quoted = /^[{[]/.test(text) ? parseExact(text) : undefined;
  return findMessage(quoted, depth + 1) ?? (text || undefined);
}

/** OpenRouter's own sentence says only that a provider failed; `raw` is what that provider said. */
function quotedIn({ raw }: Record<string, unknown>): string | undefined {
  const quoted = findMessage(raw);
  return quoted?.startsWith('<') ? undefined : quoted;
}

/** What can only be the name of a field, and not what somebody wrote into it. */
const plainPath = /^[\w.[\]-]{1,100}$/;

interface Complaint {
  readonly message: string | undefined;
  /** The field it is about. */
  readonly param: string | undefined;
  /** In lower case, the most telling first. */
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

function readComplaint(raw: unknown, named: string | null = null): Complaint {
  const outer = Array.isArray(raw) ? raw[0] : raw;
  const outside = isObject(outer) ? outer : {};
  const inside = isObject(outside.error) ? outside.error : {};
  const innermost = isObject(inside.innererror) ? inside.innererror : {};
  const metadata = isObject(inside.metadata) ? inside.metadata : {};
  const details = Array.isArray(inside.details) ? inside.details : [inside.details];
  const reasons = details.filter(isObject).flatMap((each) => [each.reason, each.error_code]);
  const words = [innermost.code, ...reasons, inside.code, inside.type, inside.status];
  const shapes = [named, outside.__type].filter(isText).map(shapeName);
  const codes = [...words, outside.code, outside.type, outside.error_type, ...shapes];
  const claims = [inside.status_code, inside.code, inside.status, outside.code];
  return {
    message: quotedIn(metadata) ?? findMessage(raw),
    param: isText(inside.param) && plainPath.test(inside.param) ? inside.param : undefined,
    codes: codes.filter((code) => typeof code === 'string').map((code) => code.toLowerCase()),
    claimedStatus: claims.map(readStatus).find((status) => status !== undefined) ?? null,
    details,
    isModeration: metadata.flagged_input !== undefined || Array.isArray(metadata.reasons),
  };
}

/** Amazon may write the name of an error between a namespace and an address. */
function shapeName(name: string): string {
  return name.replaceAll(/^[^#:]*#|:.*$/g, '');
}

/** Quotas per day come with the same status and code as those per minute: Gemini's, Bedrock's. */
function isDailyQuota({ message = '', details }: Complaint): boolean {
  const isOfTokens = /^too many tokens per day/i.test(message);
  return isOfTokens || /"quotaId":"[^"]*PerDay/.test(JSON.stringify(details));
}

function firstMatch(
  codes: readonly string[],
  kinds: ReadonlyMap<string, FailureKind>,
): FailureKind | undefined {
  const code = codes.find((candidate) => kinds.has(candidate));
  return code === undefined ? undefined : kinds.get(code);
}

function kindOf(complaint: Complaint, status: number | null): FailureKind {
  const { codes, message = '' } = complaint;
  if (isDailyQuota(complaint)) return 'quota';
  const decided = firstMatch(codes, decisiveCodes);
  if (decided !== undefined) return decided;
  if ((status === null || status < 500) && badKey.test(message)) return 'credential';
  if (status === 400 && closedAccount.test(message)) return 'quota';
  if (complaint.isModeration) return 'request';
  // Fireworks asks with 412 for its bill to be paid.
  const isRefusal = status === 403 || status === 412 || status === 429;
  if (isRefusal && noMoney.test(message)) return 'quota';
  if (status !== null) return kindOfStatus(status);
  return firstMatch(codes, hintingCodes) ?? 'server';
}

function cutMessage(message: string): string {
  return message.slice(0, messageLengthMax).toWellFormed();
}

/** The one sentence of an HTML page from a proxy, or of plain text. */
function readPage(body: string): string | undefined {
  const start = body.slice(0, pageLengthMax).trim();
  if (!start.startsWith('<')) return start === '' ? undefined : start.slice(0, 300);
  const title = /<title[^>]*>([^<]*)/i.exec(start)?.[1] ?? start.replace(/<[^>]*>/g, ' ');
  return title.replace(/\s+/g, ' ').trim() || undefined;
}

/** An answer whose status says that it failed. */
export function readFailure(
  status: number,
  body: string,
  headers: Headers,
  nowMs: number = Date.now(),
): UpstreamFailure {
  const json = parseExact(body);
  // Amazon names its errors here, and seldom in the body.
  const complaint = readComplaint(json, headers.get('x-amzn-errortype'));
  const kind = kindOf(complaint, status >= 400 ? status : (complaint.claimedStatus ?? status));
  const message = complaint.message ?? readPage(body) ?? `HTTP ${status} without a message.`;
  return {
    kind,
    status,
    message: cutMessage(message),
    param: complaint.param,
    retryAfterSeconds: readRetryAfter(headers, complaint.details, kind === 'rate_limited', nowMs),
  };
}

/** A failure in our own words: the upstream itself said nothing about it. */
export function ownFailure(kind: FailureKind, message: string): UpstreamFailure {
  return { kind, status: null, message: cutMessage(message), retryAfterSeconds: null };
}

/** An answer that is not what it claims to be. */
export function malformed(message: string): UpstreamFailure {
  return ownFailure('malformed', message);
}

/** A whole answer that cannot be read. */
export function unreadableAnswer(text: string): UpstreamFailure {
  const start = text.trim().slice(0, 200);
  return malformed(`The upstream's answer is no readable JSON object: ${start}`);
}

/** One event of a stream that cannot be read. */
export function unreadableEvent(data: string): UpstreamFailure {
  const start = data.slice(0, 200);
  return malformed(`The upstream sent an event that is no readable JSON object: ${start}`);
}

/** An error that came inside an answer of status 200, in any of the shapes above. */
export function readErrorObject(raw: unknown): UpstreamFailure {
  const complaint = readComplaint(raw);
  return {
    kind: kindOf(complaint, complaint.claimedStatus),
    status: complaint.claimedStatus,
    message: cutMessage(complaint.message ?? 'The upstream reported an error without a message.'),
    param: complaint.param,
    retryAfterSeconds: readRetryAfter(null, complaint.details, false, 0),
  };
}

/** An `error` that says nothing is filler beside an answer: `{"message": "", "code": 0}`. */
function isError(error: unknown): boolean {
  return isObject(error) ? Object.values(error).some(Boolean) : isText(error);
}

/** Finish reasons of answers that were never finished. */
const brokenFinishes: ReadonlyMap<string, FailureKind> = new Map([
  // OpenRouter, Zhipu, DeepSeek, vLLM.
  ['error', 'server'],
  ['network_error', 'server'],
  ['insufficient_system_resource', 'overloaded'],
  ['abort', 'server'],
  // Google, also after `function_call_filter: `: the model could not write the call it meant.
  ['malformed_function_call', 'server'],
  ['unexpected_tool_call', 'server'],
]);

/** An answer whose finish reason says that it failed. */
export function brokenFinish(kind: FailureKind, reason: string, more = ''): UpstreamFailure {
  return ownFailure(kind, `The upstream ended its answer with the finish reason ${reason}.${more}`);
}

function finishFailure(reason: unknown): UpstreamFailure | undefined {
  if (typeof reason !== 'string') return undefined;
  const word = reason.slice(reason.lastIndexOf(' ') + 1).toLowerCase();
  const kind = brokenFinishes.get(word);
  return kind && brokenFinish(kind, reason);
}

/** Errors that are no error object: a number and a sentence, beside an answer or instead of one. */
function numberedFailure(body: Record<string, unknown>): UpstreamFailure | undefined {
  const { base_resp: base, error_code: own } = body;
  const [code, holder] = isObject(base) ? [base.status_code, base] : [own, body];
  // Some say with the status of a success that nothing is wrong.
  if (typeof code !== 'number' || code === 0 || code === 200) return undefined;
  const failure = readErrorObject(holder);
  return { ...failure, kind: numberedCodes.get(code) ?? failure.kind };
}

/** The failure that a chunk or a body of status 200 carries, if it carries one. */
export function failureInside(body: Record<string, unknown>): UpstreamFailure | undefined {
  if (body.error !== undefined && isError(body.error)) return readErrorObject(body);
  if (body.base_resp !== undefined || body.error_code !== undefined) {
    const failure = numberedFailure(body);
    if (failure !== undefined) return failure;
  }
  const { choices, x_groq: groq } = body;
  // Why Groq stopped early.
  if (isObject(groq) && isError(groq.error)) return readErrorObject(groq);
  if (!Array.isArray(choices)) {
    // Flat errors have no `error` key: older vLLM, Mistral, SiliconFlow.
    const isFlat = typeof body.message === 'string' || body.detail !== undefined;
    return isFlat ? readErrorObject(body) : undefined;
  }
  for (const choice of choices) {
    if (!isObject(choice)) continue;
    if (choice.error !== undefined && isError(choice.error)) return readErrorObject(choice);
    const failure = finishFailure(choice.finish_reason);
    if (failure !== undefined) return failure;
  }
  return undefined;
}
