/** Converts between Anthropic's stop reasons and neutral finish reasons. */
import type { FinishReason } from '../../core/answer.ts';

const stopReasons: Readonly<Record<FinishReason, string>> = {
  stop: 'end_turn',
  stop_sequence: 'stop_sequence',
  length: 'max_tokens',
  context: 'model_context_window_exceeded',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
  pause: 'pause_turn',
};

/** OpenAI's finish reasons, which some proxies with this dialect forward unchanged. */
const openAiReasons: ReadonlyMap<string, string> = new Map([
  ['stop', 'end_turn'],
  ['tool_calls', 'end_turn'],
  ['length', 'max_tokens'],
  ['content_filter', 'refusal'],
]);

const finishReasons: ReadonlyMap<string, FinishReason> = new Map(
  Object.entries(stopReasons).map(([finish, stop]) => [stop, finish as FinishReason]),
);

export const noStopReason = 'The provider ended its response without a stop reason.';

/** Returns the neutral finish reason. Unknown reasons become `stop`. */
export function finishReasonOf(stopReason: string, hasCalls: boolean): FinishReason {
  const reason = finishReasons.get(openAiReasons.get(stopReason) ?? stopReason) ?? 'stop';
  return reason === 'stop' && hasCalls ? 'tool_calls' : reason;
}

/**
 * Returns the stop reason to forward to a client of the same dialect. If a call's input was cut
 * off, clients must not run it.
 */
export function forwardedStopReason(
  stopReason: string,
  hasToolCalls: boolean,
  isInputCut = false,
): string {
  const reason = openAiReasons.get(stopReason) ?? stopReason;
  if (reason !== 'tool_use' && !(reason === 'end_turn' && hasToolCalls)) return reason;
  return isInputCut ? 'max_tokens' : 'tool_use';
}

/** Collects what determines the stop reason while an answer is written. */
export class Stop {
  reason: FinishReason = 'stop';
  sequence: string | null = null;
  hasToolCalls = false;
  hasRefusal = false;

  /**
   * Of the answers that ended normally, those with tool calls get `tool_use`, and no others do.
   * Clients run tools only for this reason, and they wait forever if there are none to run.
   */
  get fields() {
    const isPlain = this.reason === 'stop' || this.reason === 'tool_calls';
    const reason = isPlain ? this.#plainReason : stopReasons[this.reason];
    return { stop_reason: reason, stop_sequence: this.sequence };
  }

  get #plainReason(): string {
    if (this.hasToolCalls) return 'tool_use';
    return this.hasRefusal ? 'refusal' : 'end_turn';
  }
}
