import type { Effort, ReasoningOptions } from '../../../core/prompt.ts';
import type { Target } from '../../dialect.ts';
import { effortOf } from '../../normalize/requests/generation-options.ts';

/** How Gemini's models are addressed, and asked for pictures. */

/** Google's lists call its models `models/…`, and operators copy such names. */
export function modelName(upstreamModel: string): string {
  return upstreamModel.replace(/^models\//, '').toWellFormed();
}

export function modelPath(upstreamModel: string, verb: string): string {
  return `/models/${encodeURIComponent(modelName(upstreamModel))}:${verb}`;
}

/** Models that make pictures do so only when asked. */
export function imageModalities({
  outputModalities = [],
}: Pick<Target, 'outputModalities'>): readonly string[] {
  return outputModalities.includes('text') ? ['TEXT', 'IMAGE'] : ['IMAGE'];
}

/** Gemini 3 and later take a level, and always think. Pro has no `minimal`; Flash models may. */
const levels: Readonly<Record<Effort, string>> = {
  none: 'low',
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
};

/** Earlier models take a number of tokens. Pro has other limits, which are in its quirks. */
const budgets: Readonly<Record<Effort, string>> = {
  none: '0',
  minimal: '512',
  low: '1024',
  medium: '8192',
  high: '24576',
  xhigh: '24576',
  max: '24576',
};

/**
 * How a model thinks, by its name alone: an unknown Gemini is taken for a new one. 2.5 Pro has
 * limits that only quirks can state; older models and those of other names do not think.
 */
export function defaultThinking(upstreamModel: string): 'effort' | 'budget' | null {
  if (/gemini-2\.5-flash/.test(upstreamModel)) return 'budget';
  return /gemini-(?![12]\b)/.test(upstreamModel) ? 'effort' : null;
}

/** Models that think in levels also check signatures and take pictures inside results. */
export function thinksInLevels({ thinking, upstreamModel }: Target): boolean {
  return (thinking ?? defaultThinking(upstreamModel) ?? 'budget') !== 'budget';
}

/** Writes `thinkingConfig`, with a level or a budget but never both. */
export function writeThinking(
  options: ReasoningOptions | null,
  target: Target,
): Record<string, unknown> | undefined {
  if (options === null || target.thinking === null) return undefined;
  const effort = effortOf(options);
  const efforts: Readonly<Record<string, string>> =
    target.quirks.efforts ?? (thinksInLevels(target) ? levels : budgets);
  const word = effort === null ? undefined : efforts[effort];
  return {
    ...(thinksInLevels(target)
      ? { thinkingLevel: word }
      : { thinkingBudget: budgetOf(options, word, efforts) }),
    includeThoughts: options.visible && effort !== 'none' ? true : undefined,
  };
}

function budgetOf(
  { effort, budgetTokens }: ReasoningOptions,
  word: string | undefined,
  efforts: Readonly<Record<string, string>>,
): number | undefined {
  if (budgetTokens === null || effort === 'none') return word === undefined ? word : Number(word);
  const known = Object.values(efforts).map(Number);
  return Math.min(Math.max(budgetTokens, Math.min(...known)), Math.max(...known));
}
