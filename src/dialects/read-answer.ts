import { answerBracketsMax } from '../core/bounds.ts';
import { type Fields, isObject, parseJson } from '../core/json.ts';
import type { UpstreamFailure } from './dialect.ts';
import { unreadableAnswer } from './failure.ts';

/** Reads the JSON object that a whole answer should be, or says what it is instead. */
export function readAnswer<Read>(
  text: string,
  read: (body: Fields) => Read | UpstreamFailure,
): Read | UpstreamFailure {
  const isBomb = isOften('[', text) || isOften('{', text);
  const body = isBomb ? undefined : parseJson(text);
  // Google wraps some of its errors in a list.
  const only: unknown = Array.isArray(body) ? body[0] : body;
  return isObject(only) ? read(only) : unreadableAnswer(text);
}

/** Whether a bracket occurs too often. Even long vectors have few brackets, so this is fast. */
function isOften(bracket: string, text: string): boolean {
  let at = -1;
  for (let times = 0; times <= answerBracketsMax; times += 1) {
    at = text.indexOf(bracket, at + 1);
    if (at === -1) return false;
  }
  return true;
}
