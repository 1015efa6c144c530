import type { FinishReason } from '../../core/answer.ts';
import { isText } from '../../core/json.ts';
import type { UpstreamFailure } from '../dialect.ts';
import { brokenFinish } from '../failure.ts';

/** A reason that is not listed is new. Since there is an answer, it counts as `stop`. */
const reasons: ReadonlyMap<string, FinishReason> = new Map([
  ['STOP', 'stop'],
  ['MAX_TOKENS', 'length'],
  ['SAFETY', 'content_filter'],
  ['RECITATION', 'content_filter'],
  ['LANGUAGE', 'content_filter'],
  // Blocked for a reason that Google does not name: an empty answer must not look like success.
  ['OTHER', 'content_filter'],
  ['BLOCKLIST', 'content_filter'],
  ['PROHIBITED_CONTENT', 'content_filter'],
  ['SPII', 'content_filter'],
  ['MODEL_ARMOR', 'content_filter'],
  ['IMAGE_SAFETY', 'content_filter'],
  ['IMAGE_PROHIBITED_CONTENT', 'content_filter'],
  ['IMAGE_RECITATION', 'content_filter'],
  ['IMAGE_OTHER', 'content_filter'],
]);

/** Reasons without an answer, mostly mistakes of the model; another attempt may well succeed. */
const mistakes: ReadonlySet<string> = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MALFORMED_RESPONSE',
  // The conversation began with another model and lacks the signatures that this one demands.
  'MISSING_THOUGHT_SIGNATURE',
]);

/** Gemini says `STOP` even after calls, but clients run tools only if the reason says so. */
export function finishReasonOf(word: string, hasCalls: boolean): FinishReason {
  const reason = reasons.get(word) ?? 'stop';
  return reason === 'stop' && hasCalls ? 'tool_calls' : reason;
}

export function mistakeIn(word: string, detail: unknown): UpstreamFailure | undefined {
  if (!mistakes.has(word)) return undefined;
  const more = isText(detail) ? ` ${detail.slice(0, 300)}` : '';
  return brokenFinish('server', word, more);
}
