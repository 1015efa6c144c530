import type { Effort, ReasoningOptions } from '../../../core/prompt.ts';
import type { Target } from '../../dialect.ts';
import { effortOf } from '../../normalize/requests/generation-options.ts';

// Gemini's model paths, image output, and thinking options.

/** Removes the prefix `models/`, which operators copy from Google's model list. */
export function modelName(upstreamModel: string): string {
  return upstreamModel.replace(/^models\//, '').toWellFormed();
}

export function modelPath(upstreamModel: string, verb: string): string {
  return `/models/${encodeURIComponent(modelName(upstreamModel))}:${verb}`;
}

/** Returns the modalities to request. Models generate images only on request. */
export function imageModalities({
  outputModalities = [],
}: Pick<Target, 'outputModalities'>): readonly string[] {
  return outputModalities.includes('text') ? ['TEXT', 'IMAGE'] : ['IMAGE'];
}

/**
 * Gemini 3 and later models accept a level and always think. Pro models don't have the level
 * `minimal`. Flash models may have it.
 */
const levels: Readonly<Record<Effort, string>> = {
  none: 'low',
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
};

/**
 * Earlier models accept a token budget. Pro models have other limits, which their quirks specify.
 */
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
 * Infers from a model's name how it thinks. Unknown Gemini models count as new models. Returns null
 * for older models and other names, because those models don't think, and for 2.5 Pro, because only
 * quirks can specify its limits.
 */
export function defaultThinking(upstreamModel: string): 'effort' | 'budget' | null {
  if (/gemini-2\.5-flash/.test(upstreamModel)) return 'budget';
  return /gemini-(?![12]\b)/.test(upstreamModel) ? 'effort' : null;
}

/** Returns true for models that accept a thinking level instead of a budget. */
function thinksInLevels({ thinking, upstreamModel }: Target): boolean {
  return (thinking ?? defaultThinking(upstreamModel) ?? 'budget') !== 'budget';
}

/**
 * Returns true for Gemini 3 and later. These models match results by ID, check signatures,
 * and accept images in tool results. Earlier models reject IDs at Vertex AI. A name without a
 * version counts as Gemini 3 if the model has thinking levels.
 */
export function isGemini3OrLater(target: Target): boolean {
  const [, version] = /gemini-(\d+)/.exec(target.upstreamModel) ?? [];
  return version === undefined ? thinksInLevels(target) : Number(version) >= 3;
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
  const level = effort === null ? undefined : efforts[effort];
  return {
    ...(thinksInLevels(target)
      ? { thinkingLevel: level }
      : { thinkingBudget: budgetOf(options, level, efforts) }),
    includeThoughts: options.visible && effort !== 'none' ? true : undefined,
  };
}

function budgetOf(
  { effort, budgetTokens }: ReasoningOptions,
  level: string | undefined,
  efforts: Readonly<Record<string, string>>,
): number | undefined {
  if (budgetTokens === null || effort === 'none')
    return level === undefined ? level : Number(level);
  const known = Object.values(efforts).map(Number);
  return Math.min(Math.max(budgetTokens, Math.min(...known)), Math.max(...known));
}
