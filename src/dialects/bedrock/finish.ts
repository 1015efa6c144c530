import type { FinishReason } from '../../core/answer.ts';
import { fieldsOf, isObject, isText } from '../../core/json.ts';
import { finishReasonOf as anthropicReason, noStopReason } from '../anthropic/finish.ts';
import type { UpstreamFailure } from '../dialect.ts';
import { brokenFinish, malformed } from '../failure.ts';

/** Reasons of Bedrock's own; its other reasons are Anthropic's. */
const reasons: ReadonlyMap<string, FinishReason> = new Map([
  ['guardrail_intervened', 'content_filter'],
  ['content_filtered', 'content_filter'],
]);

/** The model wrote something that Bedrock cannot read; another attempt may well succeed. */
const mistakes: ReadonlySet<string> = new Set(['malformed_model_output', 'malformed_tool_use']);

export function finishReasonOf(word: string, hasCalls: boolean): FinishReason {
  return reasons.get(word) ?? anthropicReason(word, hasCalls);
}

/** The failure that this stop reason, or a missing one, stands for; undefined for none. */
export function endFailure(word: unknown): UpstreamFailure | undefined {
  if (!isText(word)) return malformed(noStopReason);
  return mistakes.has(word) ? brokenFinish('server', word) : undefined;
}

/** Where the model's own fields name the stop sequence: in a whole answer, in the last event. */
export const stopSequencePaths = ['/stop_sequence', '/delta/stop_sequence'];

export function stopSequenceIn(fields: unknown): string | null {
  if (!isObject(fields)) return null;
  const { delta, stop_sequence: own } = fields;
  const found = own ?? fieldsOf(delta).stop_sequence;
  return isText(found) ? found : null;
}
