import { answerBracketsMax } from '../core/bounds.ts';
import { type Fields, isObject, isText, parseJson } from '../core/json.ts';
import type { FailureKind, ReadResult, UpstreamFailure } from './dialect.ts';
import { parseExact } from './normalize/exact-json.ts';
import {
  kindOf,
  kindsByNumericCode,
  readProblem,
  readRetryAfter,
  type UpstreamProblem,
} from './normalize/responses/upstream-problem.ts';

/** The upstream sent something that no honest answer needs: too large, too many, or useless. */
export class MalformedAnswer extends Error {
  override readonly name = 'UnusableAnswer';

  constructor(content: string) {
    super(`The upstream sent ${content}.`);
  }
}

/** Reads what went wrong at an upstream: from an error status, or inside an answer with 200. */

const messageLengthMax = 500;
/** How much of an error page is read: its sentence stands near the beginning. */
const pageLengthMax = 2_000;

function cutMessage(message: string): string {
  return message.slice(0, messageLengthMax).toWellFormed();
}

/** The one sentence of an HTML page from a proxy, or of plain text. */
function readTextBody(body: string): string | undefined {
  const start = body.slice(0, pageLengthMax).trim();
  if (!start.startsWith('<')) return start.slice(0, 300) || undefined;
  const title = /<title[^>]*>([^<]*)/i.exec(start)?.[1] ?? start.replace(/<[^>]*>/g, ' ');
  return title.replace(/\s+/g, ' ').trim() || undefined;
}

/** The message for JSON that has no sentence: it names the error's code, if there is one. */
function fallbackMessage(status: number, { codes: [code] }: UpstreamProblem): string {
  const rest = code ? `, only with the code ${code}.` : '.';
  return `HTTP ${status} without a message${rest}`;
}

/** An answer whose status says that it failed. */
export function readFailure(
  status: number,
  body: string,
  headers: Pick<Headers, 'get'>,
  nowMs: number,
): UpstreamFailure {
  const json = parseExact(body);
  // Amazon names its errors in this header, and seldom in the body.
  const problem = readProblem(json, headers.get('x-amzn-errortype'));
  const kind = kindOf(problem, status >= 400 ? status : (problem.claimedStatus ?? status));
  const reportedMessage = problem.message ?? (json === undefined ? readTextBody(body) : undefined);
  const message = reportedMessage ?? fallbackMessage(status, problem);
  return {
    kind,
    status,
    message: cutMessage(message),
    param: problem.param,
    retryAfterSeconds: readRetryAfter(headers, problem.details, kind === 'rate_limited', nowMs),
  };
}

/** A failure in our own words: the upstream itself said nothing about it. */
export function createFailure(kind: FailureKind, message: string): UpstreamFailure {
  return { kind, status: null, message: cutMessage(message), retryAfterSeconds: null };
}

/** An answer that is not what it claims to be. */
export function malformed(message: string): UpstreamFailure {
  return createFailure('malformed', message);
}

/** A whole answer that cannot be read. */
export function invalidJsonAnswer(text: string): UpstreamFailure {
  const start = text.trim().slice(0, 200);
  return malformed(`The upstream's answer is no readable JSON object: ${start}`);
}

/** One event of a stream that cannot be read. */
export function invalidJsonEvent(data: string): UpstreamFailure {
  const start = data.slice(0, 200);
  return malformed(`The upstream sent an event that is no readable JSON object: ${start}`);
}

/** An error that came inside an answer of status 200. */
export function readErrorObject(raw: unknown): UpstreamFailure {
  const problem = readProblem(raw);
  return {
    kind: kindOf(problem, problem.claimedStatus),
    status: problem.claimedStatus,
    message: cutMessage(problem.message ?? 'The upstream reported an error without a message.'),
    param: problem.param,
    retryAfterSeconds: readRetryAfter(null, problem.details, false, 0),
  };
}

/** An `error` that says nothing is filler beside an answer: `{"message": "", "code": 0}`. */
function isError(error: unknown): boolean {
  return isObject(error) ? Object.values(error).some(Boolean) : isText(error);
}

/** Finish reasons of answers that were never finished. */
const failedFinishReasons: ReadonlyMap<string, FailureKind> = new Map([
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
export function finishReasonFailure(kind: FailureKind, reason: string, more = ''): UpstreamFailure {
  return createFailure(
    kind,
    `The upstream ended its answer with the finish reason ${reason}.${more}`,
  );
}

function readFinishFailure(reason: unknown): UpstreamFailure | undefined {
  if (typeof reason !== 'string') return undefined;
  const word = reason.slice(reason.lastIndexOf(' ') + 1).toLowerCase();
  const kind = failedFinishReasons.get(word);
  return kind && finishReasonFailure(kind, reason);
}

/** Errors given as a number and a sentence, not as an error object, beside an answer or instead. */
function numericCodeFailure(body: Fields): UpstreamFailure | undefined {
  const { base_resp: base, error_code: errorCode } = body;
  const [code, source] = isObject(base) ? [base.status_code, base] : [errorCode, body];
  // Some vendors write 0 or 200 to say that nothing is wrong.
  if (typeof code !== 'number' || code === 0 || code === 200) return undefined;
  const failure = readErrorObject(source);
  return { ...failure, kind: kindsByNumericCode.get(code) ?? failure.kind };
}

/**
 * Codes with which vendors say that all is well, such as iFlytek's
 * `{"code":0,"message":"Success"}`.
 */
const successCodes: ReadonlySet<unknown> = new Set([0, 200, 20000, '0', '200', 'ok', 'success']);

/** Flat errors have no `error` key: older vLLM, Mistral, SiliconFlow, Z.ai (`success: false`). */
function isFlatError({ code, message, detail, success }: Fields): boolean {
  if (success === false) return true;
  const isSuccess = successCodes.has(typeof code === 'string' ? code.toLowerCase() : code);
  return !isSuccess && (isText(message) || (detail !== undefined && detail !== null));
}

/** The failure that a chunk or a body of status 200 carries, if it carries one. */
export function failureInside(body: Fields): UpstreamFailure | undefined {
  if (isError(body.error)) return readErrorObject(body);
  if (body.base_resp !== undefined || body.error_code !== undefined) {
    const failure = numericCodeFailure(body);
    if (failure !== undefined) return failure;
  }
  const { choices, x_groq: groq } = body;
  // Why Groq stopped early.
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

/** Reads the JSON object that a whole answer should be, or says what it is instead. */
export function readAnswer<Value>(
  text: string,
  read: (body: Fields) => ReadResult<Value>,
): ReadResult<Value> {
  const hasTooManyBrackets = exceedsBracketLimit('[', text) || exceedsBracketLimit('{', text);
  const body = hasTooManyBrackets ? undefined : parseJson(text);
  // Google wraps some of its errors in a list.
  const answer: unknown = Array.isArray(body) ? body[0] : body;
  return isObject(answer) ? read(answer) : { ok: false, failure: invalidJsonAnswer(text) };
}

/** Whether a bracket occurs too often. Even long vectors have few brackets, so this is fast. */
function exceedsBracketLimit(bracket: string, text: string): boolean {
  let at = -1;
  for (let times = 0; times <= answerBracketsMax; times += 1) {
    at = text.indexOf(bracket, at + 1);
    if (at === -1) return false;
  }
  return true;
}
