import { readFile } from 'node:fs/promises';
import { callConfiguredServer, type ServerCall } from '../core/call-configured-server.ts';
import { failureCode } from '../core/errors.ts';
import { readBounded } from '../core/read-bounded.ts';
import { WorkloadError } from './refreshed-credential.ts';

// The steps of a refresh. Each fails with a sentence that names it.

/** Answers are a few kB. */
const answerBytesMax = 64 * 1024;
/** Codes such as AccessDenied. Other text isn't shown, because it may quote the request. */
const codePattern = /^[A-Za-z][\w.]{0,79}$/;

/** Returns the error of a step, such as "Assuming the role at STS failed (status 403)." */
export function stepError(step: string, details: string): WorkloadError {
  return new WorkloadError(`${step} failed (${details}).`);
}

/** Calls a server, and returns its answer if the status is 200. `codeIn` finds an error's code. */
export async function callStep(
  step: string,
  call: ServerCall,
  signal: AbortSignal,
  codeIn: (text: string) => unknown = () => undefined,
): Promise<{ readonly text: string; readonly headers: Headers }> {
  let answer: Response;
  let text: string | undefined;
  try {
    answer = await callConfiguredServer(call, signal);
    text = await readBounded(answer, answerBytesMax);
  } catch (error) {
    if (signal.aborted) throw stepError(step, 'timeout');
    throw stepError(step, failureCode(error) || 'no response');
  }
  if (answer.status !== 200) {
    const code = codeIn(text ?? '');
    const isCode = typeof code === 'string' && codePattern.test(code);
    throw stepError(step, `status ${answer.status}${isCode ? `, ${code}` : ''}`);
  }
  if (text === undefined) throw stepError(step, 'its answer is too long');
  return { text, headers: answer.headers };
}

/** Reads a token file, which the platform replaces from time to time. */
export async function readStep(step: string, file: string): Promise<string> {
  let text: string;
  try {
    text = (await readFile(file, 'utf8')).trim();
  } catch (error) {
    throw stepError(step, failureCode(error) ?? 'unknown reason');
  }
  if (text === '') throw stepError(step, 'the file is empty');
  return text;
}

/** Returns a text that can be sent in a header. */
export function tokenIn(step: string, value: unknown): string {
  if (typeof value === 'string' && /^[\x21-\x7e]{1,16384}$/.test(value)) return value;
  throw stepError(step, 'its answer is invalid');
}

/** Returns a time in epoch milliseconds. */
export function timeIn(step: string, value: unknown): number {
  const time = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(time)) throw stepError(step, 'its answer is invalid');
  return time;
}
