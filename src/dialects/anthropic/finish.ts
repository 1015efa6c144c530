/** Why an answer ended, in Anthropic's words and in ours. */
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

/** Proxies that speak this dialect may pass on OpenAI's reasons unchanged. */
const foreignReasons: ReadonlyMap<string, string> = new Map([
  ['stop', 'end_turn'],
  ['tool_calls', 'end_turn'],
  ['length', 'max_tokens'],
  ['content_filter', 'refusal'],
]);

const finishReasons: ReadonlyMap<string, FinishReason> = new Map(
  Object.entries(stopReasons).map(([reason, word]) => [word, reason as FinishReason]),
);

export const noStopReason = 'The upstream ended its answer without a stop reason.';

/** A reason that is not listed becomes `stop`: the answer is over, and clients know no more. */
export function finishReasonOf(word: string, hasCalls: boolean): FinishReason {
  const reason = finishReasons.get(foreignReasons.get(word) ?? word) ?? 'stop';
  return reason === 'stop' && hasCalls ? 'tool_calls' : reason;
}

/** The stop reason for an Anthropic client whose upstream speaks the same dialect. */
export function ownStopReason(word: string, hasTools: boolean): string {
  const reason = foreignReasons.get(word) ?? word;
  return reason === 'end_turn' && hasTools ? 'tool_use' : reason;
}

/** Collects why an answer ended while its words are told. */
export class Stop {
  reason: FinishReason = 'stop';
  sequence: string | null = null;
  hasTools = false;
  isRefused = false;

  /** Clients run tools only when the reason says so, and then wait for ever if there are none. */
  get fields() {
    const isPlain = this.reason === 'stop' || this.reason === 'tool_calls';
    const word = isPlain ? this.#plainWord : stopReasons[this.reason];
    return { stop_reason: word, stop_sequence: this.sequence };
  }

  get #plainWord(): string {
    if (this.hasTools) return 'tool_use';
    return this.isRefused ? 'refusal' : 'end_turn';
  }
}
