/** How a wish for reasoning is sent to Anthropic's models; each generation has its own fields. */
import type { Dialogue, Effort, ReasoningWish, Turn } from '../../core/dialogue.ts';
import { effortOf, effortWord } from '../ask/effort.ts';
import { isForced } from '../ask/tools/tool-choice.ts';
import type { Target } from '../dialect.ts';
import { isAnthropics, ownSignature } from '../signature.ts';
import { type EffortWords, generationOf, usualEfforts } from './generation.ts';

export interface ThinkingWords {
  readonly thinking?: object;
  readonly effort?: string | undefined;
  /** The model will think, and so refuses sampling parameters. */
  readonly isOn: boolean;
  /** The wish could not be granted. */
  readonly isDropped: boolean;
}

const silent: ThinkingWords = { isOn: false, isDropped: false };
const dropped: ThinkingWords = { isOn: false, isDropped: true };

/** Anthropic's lowest budget, and the least that should be left for the answer after it. */
const budgetTokensMin = 1_024;
const answerTokensMin = 1_024;

const budgets: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 1_024,
  low: 2_048,
  medium: 10_000,
  high: 16_000,
  xhigh: 32_000,
  max: Number.POSITIVE_INFINITY,
};

export function thinkingFor(
  { reasoning, turns, tools, toolChoice }: Dialogue,
  target: Target,
  outputTokensMax: number,
): ThinkingWords {
  if (reasoning === null) return silent;
  switch (target.thinking) {
    case 'adaptive':
      return adaptive(reasoning, target, lacksThought(turns));
    case 'effort':
      return effortOnly(reasoning, target);
    case 'budget':
      if (reasoning.effort === 'none') return silent;
      // Thinking is refused together with a forced tool; the tool stays, as the client needs it.
      if (tools.length > 0 && isForced(toolChoice)) return dropped;
      return lacksThought(turns) ? dropped : budget(reasoning, outputTokensMax);
    case null:
      return reasoning.effort === 'none' ? silent : dropped;
  }
}

function adaptive(wish: ReasoningWish, target: Target, isWithoutThought: boolean): ThinkingWords {
  const words = effortsOf(target);
  const effort = effortWord(effortOf(wish), { efforts: words });
  // Only models that always think have an effort for `none`.
  const isOptional = words.none === undefined;
  if (isOptional && (wish.effort === 'none' || isWithoutThought)) {
    const isDropped = wish.effort !== 'none';
    return { thinking: { type: 'disabled' }, isOn: false, isDropped };
  }
  // Without `display`, newer models do not show their thinking.
  const display = wish.visible ? 'summarized' : 'omitted';
  return { thinking: { type: 'adaptive', display }, effort, isOn: true, isDropped: false };
}

function effortOnly(wish: ReasoningWish, target: Target): ThinkingWords {
  const effort = effortWord(effortOf(wish), { efforts: effortsOf(target) });
  return { effort, isOn: false, isDropped: effort === undefined };
}

function effortsOf({ quirks, upstreamModel }: Target): EffortWords {
  return quirks.efforts ?? generationOf(upstreamModel)?.efforts ?? usualEfforts;
}

function budget(wish: ReasoningWish, outputTokensMax: number): ThinkingWords {
  const wanted = wish.budgetTokens ?? budgets[wish.effort ?? 'medium'];
  const tokens = Math.min(Math.max(wanted, budgetTokensMin), outputTokensMax - answerTokensMin);
  if (tokens < budgetTokensMin) return dropped;
  const thinking = { type: 'enabled', budget_tokens: tokens };
  return { thinking, isOn: true, isDropped: false };
}

/**
 * Whether the latest tool calls of the model lack the thought that led to them, as after a client
 * that drops fields unknown to it. While it thinks, a model refuses such a conversation.
 */
function lacksThought(turns: readonly Turn[]): boolean {
  const last = turns.findLast(({ role }) => role === 'assistant');
  if (last?.role !== 'assistant') return false;
  if (!last.parts.some(({ kind }) => kind === 'tool_call')) return false;
  return !last.parts.some(
    (part) =>
      part.kind === 'reasoning' &&
      (isAnthropics(part.redacted) || ownSignature('anthropic', part.signature) !== undefined),
  );
}
