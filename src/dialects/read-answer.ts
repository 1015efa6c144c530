import { type Fields, isObject, parseJson } from '../core/json.ts';
import type { UpstreamFailure } from './dialect.ts';
import { unreadableAnswer } from './failure.ts';

/** Reads the JSON object that a whole answer should be, or says what it is instead. */
export function readAnswer<Read>(
  text: string,
  read: (body: Fields) => Read | UpstreamFailure,
): Read | UpstreamFailure {
  const body = parseJson(text);
  // Google wraps some of its errors in a list.
  const only: unknown = Array.isArray(body) ? body[0] : body;
  return isObject(only) ? read(only) : unreadableAnswer(text);
}
