import { answerBracketsMax } from '../core/bounds.ts';
import { isNonEmptyString, isObject, type JsonObject, parseJson } from '../core/json.ts';
import type { FailureKind, ReadResult, UpstreamFailure } from './dialect.ts';
import { parseExact } from './normalize/exact-json.ts';
import { kindOf, kindsByNumericCode } from './normalize/responses/failure-kind.ts';
import { readRetryAfter } from './normalize/responses/retry-after.ts';
import { readUpstreamError, type UpstreamErrorInfo } from './normalize/responses/upstream-error.ts';

/** Thrown for an upstream response that is too large, malformed, or unusable. */
export class MalformedAnswer extends Error {
  override readonly name = 'MalformedAnswer';

  constructor(content: string) {
    super(`The provider sent ${content}.`);
  }
}

/** Thrown for a stream with too many bytes, lines, or events and no content. */
export class NoContentError extends MalformedAnswer {}

// Reads failures from responses with an error status and from responses with status 200.

const messageLengthMax = 500;
/** How many characters of a plain-text or HTML error are read. The message is near the start. */
const pageLengthMax = 2_000;

function cutMessage(message: string): string {
  return message.slice(0, messageLengthMax).toWellFormed();
}

/** Returns the title of an HTML error page from a proxy, or the start of plain text. */
function readTextBody(body: string): string | undefined {
  const start = body.slice(0, pageLengthMax).trim();
  if (!start.startsWith('<')) return start.slice(0, 300) || undefined;
  const title = /<title[^>]*>([^<]*)/i.exec(start)?.[1] ?? start.replace(/<[^>]*>/g, ' ');
  return title.replace(/\s+/g, ' ').trim() || undefined;
}

/** Returns a message for an error that has none. Includes the error's code if there is one. */
function fallbackMessage(status: number, { codes: [code] }: UpstreamErrorInfo): string {
  return `HTTP ${status} with no error message${code ? ` (code ${code})` : ''}.`;
}

/** Reads the failure in a response with an error status. */
export function readFailure(
  status: number,
  body: string,
  headers: Pick<Headers, 'get'>,
  nowMs: number,
): UpstreamFailure {
  const json = parseExact(body);
  // Amazon sends the error's name in this header, and rarely in the body.
  const error = readUpstreamError(json, headers.get('x-amzn-errortype'));
  const kind = kindOf(error, status >= 400 ? status : (error.claimedStatus ?? status));
  const reportedMessage = error.message ?? (json === undefined ? readTextBody(body) : undefined);
  const message = reportedMessage ?? fallbackMessage(status, error);
  return {
    kind,
    status,
    message: cutMessage(message),
    param: error.param,
    retryAfterSeconds: readRetryAfter(headers, error.details, kind === 'rate_limited', nowMs),
  };
}

/** Creates a failure with the gateway's own message, for when the upstream sent none. */
export function createFailure(kind: FailureKind, message: string): UpstreamFailure {
  return { kind, status: null, message: cutMessage(message), retryAfterSeconds: null };
}

/** Creates the failure for an invalid response. */
export function malformed(message: string): UpstreamFailure {
  return createFailure('malformed', message);
}

export function invalidJsonAnswer(text: string): UpstreamFailure {
  const start = text.trim().slice(0, 200);
  return malformed(`The provider's response isn't a valid JSON object: ${start}`);
}

export function invalidJsonEvent(data: string): UpstreamFailure {
  const start = data.slice(0, 200);
  return malformed(`The provider sent an event that isn't a valid JSON object: ${start}`);
}

/** Reads an error object from a response with status 200. */
export function readErrorObject(raw: unknown): UpstreamFailure {
  const error = readUpstreamError(raw);
  return {
    kind: kindOf(error, error.claimedStatus),
    status: error.claimedStatus,
    message: cutMessage(error.message ?? 'The provider reported an error without a message.'),
    param: error.param,
    retryAfterSeconds: readRetryAfter(null, error.details, false, 0),
  };
}

/** Returns false for an empty `error` next to an answer, such as `{"message": "", "code": 0}`. */
function isError(error: unknown): boolean {
  return isObject(error) ? Object.values(error).some(Boolean) : isNonEmptyString(error);
}

/** Finish reasons of failed responses. */
const failedFinishReasons: ReadonlyMap<string, FailureKind> = new Map([
  // OpenRouter, Zhipu, DeepSeek, vLLM.
  ['error', 'server'],
  ['network_error', 'server'],
  ['insufficient_system_resource', 'overloaded'],
  ['abort', 'server'],
  // Google, sometimes with the prefix `function_call_filter: `. The model wrote an invalid tool
  // call.
  ['malformed_function_call', 'server'],
  ['unexpected_tool_call', 'server'],
]);

/** Creates the failure for a finish reason. */
export function finishReasonFailure(
  kind: FailureKind,
  reason: string,
  explanation = '',
): UpstreamFailure {
  return createFailure(
    kind,
    `The provider ended its response with the finish reason ${reason}.${explanation}`,
  );
}

function readFinishFailure(reason: unknown): UpstreamFailure | undefined {
  if (typeof reason !== 'string') return undefined;
  const lastWord = reason.slice(reason.lastIndexOf(' ') + 1).toLowerCase();
  const kind = failedFinishReasons.get(lastWord);
  return kind && finishReasonFailure(kind, reason);
}

/** Reads an error that the body reports as a number and a message, without an error object. */
function numericCodeFailure(body: JsonObject): UpstreamFailure | undefined {
  const { base_resp: base, error_code: errorCode } = body;
  const [code, source] = isObject(base) ? [base.status_code, base] : [errorCode, body];
  // Some vendors use 0 or 200 for success.
  if (typeof code !== 'number' || code === 0 || code === 200) return undefined;
  const failure = readErrorObject(source);
  return { ...failure, kind: kindsByNumericCode.get(code) ?? failure.kind };
}

/** Codes for success, as in iFlytek's `{"code":0,"message":"Success"}`. */
const successCodes: ReadonlySet<unknown> = new Set([0, 200, 20000, '0', '200', 'ok', 'success']);

/**
 * Recognizes errors without an `error` key, as sent by older vLLM, Mistral, SiliconFlow, and Z.ai.
 */
function isFlatError({ code, message, detail, success }: JsonObject): boolean {
  if (success === false) return true;
  const isSuccess = successCodes.has(typeof code === 'string' ? code.toLowerCase() : code);
  return !isSuccess && (isNonEmptyString(message) || (detail !== undefined && detail !== null));
}

/** Returns the failure in a chunk or a body with status 200, if there is one. */
export function failureInside(body: JsonObject): UpstreamFailure | undefined {
  if (isError(body.error)) return readErrorObject(body);
  if (body.base_resp !== undefined || body.error_code !== undefined) {
    const failure = numericCodeFailure(body);
    if (failure !== undefined) return failure;
  }
  const { choices, x_groq: groq } = body;
  // In this field, Groq reports why it stopped early.
  if (isObject(groq) && isError(groq.error)) return readErrorObject(groq);
  if (!Array.isArray(choices)) return isFlatError(body) ? readErrorObject(body) : undefined;
  for (const choice of choices) {
    if (!isObject(choice)) continue;
    if (isError(choice.error)) return readErrorObject(choice);
    const failure = readFinishFailure(choice.finish_reason);
    if (failure !== undefined) return failure;
  }
  return undefined;
}

/** Reads a response, which must be a JSON object or a list that contains a JSON object. */
export function readAnswer<Value>(
  text: string,
  read: (body: JsonObject) => ReadResult<Value>,
): ReadResult<Value> {
  const hasTooManyBrackets = exceedsBracketLimit('[', text) || exceedsBracketLimit('{', text);
  const body = hasTooManyBrackets ? undefined : parseJson(text);
  // Google wraps some of its errors in a list.
  const answer: unknown = Array.isArray(body) ? body[0] : body;
  return isObject(answer) ? read(answer) : { ok: false, failure: invalidJsonAnswer(text) };
}

/**
 * Returns true if a bracket occurs more often than the limit allows. Even long vectors contain few
 * brackets, so this is fast.
 */
function exceedsBracketLimit(bracket: string, text: string): boolean {
  let at = -1;
  for (let times = 0; times <= answerBracketsMax; times += 1) {
    at = text.indexOf(bracket, at + 1);
    if (at === -1) return false;
  }
  return true;
}
