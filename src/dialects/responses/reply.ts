import type { AnswerListener } from '../../core/answer.ts';
import { isObject } from '../../core/json.ts';
import type { UpstreamFailure } from '../dialect.ts';
import { parseExact } from '../exact-json.ts';
import { malformed } from '../failure.ts';
import { ResponsesReader } from './reader.ts';

/** Tells a whole answer; the failure that it is instead, if it is one. */
export function readReply(text: string, listener: AnswerListener): UpstreamFailure | undefined {
  const body = parseExact(text);
  if (!isObject(body)) {
    const start = text.trim().slice(0, 200);
    return malformed(`The upstream's answer is no readable JSON object: ${start}`);
  }
  return new ResponsesReader(listener).takeResponse(body, undefined);
}
