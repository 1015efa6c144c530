import type { AnswerListener } from '../../core/answer.ts';
import { isObject } from '../../core/json.ts';
import type { UpstreamFailure } from '../dialect.ts';
import { parseExact } from '../exact-json.ts';
import { malformed } from '../failure.ts';
import { GeminiReader } from './reader.ts';

/** Tells a whole answer; the failure that it is instead, if it is one. */
export function readReply(text: string, listener: AnswerListener): UpstreamFailure | undefined {
  const body = parseExact(text);
  const answer: unknown = Array.isArray(body) ? body[0] : body;
  if (!isObject(answer)) {
    const start = text.trim().slice(0, 200);
    return malformed(`The upstream's answer is no readable JSON object: ${start}`);
  }
  const reader = new GeminiReader(listener);
  const failure = reader.take(answer);
  if (failure !== undefined || reader.finished) return failure;
  return malformed('The upstream answered without a finish reason.');
}
