import type { FinishReason } from '../../core/answer.ts';
import { fieldsOf, isObject, isText } from '../../core/json.ts';
import { finishReasonOf as anthropicReason, noStopReason } from '../anthropic/finish.ts';
import type { UpstreamFailure } from '../dialect.ts';
import { brokenFinish, malformed } from '../failure.ts';

/** What Bedrock itself does to an answer; its other words are Anthropic's. */
const reasons: ReadonlyMap<string, FinishReason> = new Map([
  ['guardrail_intervened', 'content_filter'],
  ['content_filtered', 'content_filter'],
]);

/** The model wrote what Bedrock cannot read: the next attempt may well succeed. */
const mistakes: ReadonlySet<string> = new Set(['malformed_model_output', 'malformed_tool_use']);

export function finishReasonOf(word: string, hasCalls: boolean): FinishReason {
  return reasons.get(word) ?? anthropicReason(word, hasCalls);
}

/** Why an answer that ends with this word, or without any, is none. */
export function endFailure(word: unknown): UpstreamFailure | undefined {
  if (!isText(word)) return malformed(noStopReason);
  return mistakes.has(word) ? brokenFinish('server', word) : undefined;
}

/** Where a model's own answer has the stop sequence that it met: whole, and in the last event. */
export const stopSequencePaths = ['/stop_sequence', '/delta/stop_sequence'];

export function stopSequenceIn(fields: unknown): string | null {
  if (!isObject(fields)) return null;
  const { delta, stop_sequence: own } = fields;
  const found = own ?? fieldsOf(delta).stop_sequence;
  return isText(found) ? found : null;
}
