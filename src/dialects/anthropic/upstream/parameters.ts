import type { Effort, Prompt, ReasoningOptions, Turn } from '../../../core/prompt.ts';
import type { Target } from '../../dialect.ts';
import { detailNames, dropParameters } from '../../normalize/requests/drop-parameters.ts';
import {
  effortOf,
  outputLimit,
  vendorEffort,
} from '../../normalize/requests/generation-options.ts';
import { isForced } from '../../normalize/requests/tools.ts';
import { isAnthropicRedacted, ownSignature } from '../../normalize/signature.ts';

// Drops the parameters of a prompt that Anthropic's and Bedrock's APIs don't have.

/**
 * The output cap for models whose maximum is unknown. If a model's maximum is lower, the catalog
 * must specify it.
 */
const outputTokensDefault = 8_192;

/** Parameters that neither API has, by the clients' names. */
const unsupportedParameters = [
  'seed',
  'presence_penalty',
  'frequency_penalty',
  'logprobs',
  'top_logprobs',
  'logit_bias',
  'n',
  'verbosity',
  'prompt_cache_key',
];

interface SupportedPrompt {
  readonly prompt: Prompt;
  readonly reasoning: ThinkingFields;
  /** The client's output cap, or a lower cap that its credits cover; null if there is neither. */
  readonly limit: number | null;
  /** The output cap; if there is none, the model's maximum. */
  readonly outputTokensMax: number;
  /** The dropped parameters, by the client's names. The request writers add others. */
  readonly dropped: Set<string>;
}

interface ModelLimits {
  /** Additional parameters that this API doesn't have. */
  readonly alsoUnsupported?: readonly string[];
  /** True if the model accepts only one of `temperature` and `top_p`. */
  readonly isSamplingExclusive?: boolean;
}

export function toSupportedPrompt(
  requested: Prompt,
  target: Target,
  { alsoUnsupported = [], isSamplingExclusive = true }: ModelLimits = {},
): SupportedPrompt {
  const names = [
    ...unsupportedParameters,
    ...alsoUnsupported,
    ...(target.quirks.drop_params ?? []),
  ];
  const supported = dropParameters(requested, names);
  const limit = outputLimit(requested.outputTokensMax, target);
  const outputTokensMax = limit ?? target.modelOutputTokensMax ?? outputTokensDefault;
  const reasoning = thinkingFor(supported.prompt, target, outputTokensMax);
  const { temperature } = supported.prompt.sampling;
  const excluded = temperature !== undefined && isSamplingExclusive ? ['top_p'] : [];
  // While thinking is on, models reject sampling parameters.
  const rejected = reasoning.isOn ? ['temperature', 'top_p', 'top_k'] : excluded;
  const sampled = dropParameters(supported.prompt, rejected);
  const dropped = new Set([...supported.dropped, ...sampled.dropped, ...detailNames(requested)]);
  if (reasoning.isDropped) dropped.add('reasoning');
  return { prompt: sampled.prompt, reasoning, limit, outputTokensMax, dropped };
}

/**
 * Drops blank stop sequences and limits the temperature to 1, because both APIs reject other
 * values. OpenAI allows temperatures up to 2.
 */
export function writeLimits({ sampling, stop }: Prompt, dropped: Set<string>) {
  const { temperature } = sampling;
  const stops = stop.filter((text) => text.trim() !== '');
  if (stops.length < stop.length) dropped.add('stop');
  return {
    temperature: temperature === undefined ? undefined : Math.min(temperature, 1),
    stops: stops.length > 0 ? stops : undefined,
  };
}

// Determines from the name of an Anthropic model how the model thinks. The catalog specifies this
// for its own models, so this table is for models that an operator adds. Names at Bedrock and
// Vertex AI are longer, so the patterns match any part of a name.

type EffortNames = Readonly<Record<string, string>>;

interface Generation {
  readonly names: RegExp;
  readonly thinking: 'adaptive' | 'budget';
  /** Undefined for models that reject an effort. */
  readonly efforts?: EffortNames;
}

/**
 * `none` has no equivalent: if no effort is sent, the model decides by itself how much to think.
 */
const usualEfforts: EffortNames = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'max',
};

/** The first entry whose `names` match is the model's generation. */
const generations: readonly Generation[] = [
  { names: /claude-opus-4[-.]5\b/, thinking: 'budget', efforts: usualEfforts },
  // In the names of the first Claude 4 models, the family may come last: `claude-4-sonnet`.
  { names: /claude-(?:3\b|(?:(?:opus|sonnet|haiku)-)?4\b(?![-.][6-9]\b))/, thinking: 'budget' },
  {
    names: /claude-\w+-4[-.]6\b/,
    thinking: 'adaptive',
    efforts: { ...usualEfforts, xhigh: 'max' },
  },
  {
    names: /claude-(?:haiku|(?:opus|sonnet)-(?:4|5(?![-.]\d\b)))/,
    thinking: 'adaptive',
    efforts: usualEfforts,
  },
  // Models whose thinking can't be turned off, and models newer than this table.
  { names: /claude-/, thinking: 'adaptive', efforts: { none: 'low', ...usualEfforts } },
];

/** Returns undefined for other vendors' models. They may think in a different way or not at all. */
export function generationOf(upstreamModel: string): Generation | undefined {
  return generations.find(({ names }) => names.test(upstreamModel));
}

// Writes reasoning options. Each model generation has different fields for them.

interface ThinkingFields {
  readonly thinking?: object;
  readonly effort?: string | undefined;
  /** True if the model will think. It then rejects sampling parameters. */
  readonly isOn: boolean;
  /** True if the reasoning options can't be applied. */
  readonly isDropped: boolean;
}

const noThinking: ThinkingFields = { isOn: false, isDropped: false };
const unsupportedThinking: ThinkingFields = { isOn: false, isDropped: true };

/** Anthropic's minimum budget. */
const budgetTokensMin = 1_024;
/** What is left for the answer itself, unless the budget would then be below its minimum. */
const answerTokens = 1_024;

const budgets: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 1_024,
  low: 2_048,
  medium: 10_000,
  high: 16_000,
  xhigh: 32_000,
  max: Number.POSITIVE_INFINITY,
};

function thinkingFor(
  { reasoning, turns, tools, toolChoice }: Prompt,
  target: Target,
  outputTokensMax: number,
): ThinkingFields {
  if (reasoning === null) return noThinking;
  switch (target.thinking) {
    case 'adaptive':
      return adaptive(reasoning, target, lacksThinking(turns));
    case 'effort':
      return effortOnly(reasoning, target);
    case 'budget':
      if (reasoning.effort === 'none') return noThinking;
      // Anthropic rejects thinking together with a forced tool. Keep the tool, because the client
      // needs it.
      if (tools.length > 0 && isForced(toolChoice)) return unsupportedThinking;
      return lacksThinking(turns) ? unsupportedThinking : budget(reasoning, outputTokensMax);
    case null:
      return reasoning.effort === 'none' ? noThinking : unsupportedThinking;
  }
}

function adaptive(
  options: ReasoningOptions,
  target: Target,
  isWithoutThinking: boolean,
): ThinkingFields {
  const efforts = effortsOf(target);
  const effort = vendorEffort(effortOf(options), { efforts });
  // Only models that always think have an effort for `none`.
  const isOptional = efforts.none === undefined;
  if (isOptional && (options.effort === 'none' || isWithoutThinking)) {
    const isDropped = options.effort !== 'none';
    return { thinking: { type: 'disabled' }, isOn: false, isDropped };
  }
  // Without `display`, newer models don't return their thinking.
  const display = options.visible ? 'summarized' : 'omitted';
  return { thinking: { type: 'adaptive', display }, effort, isOn: true, isDropped: false };
}

function effortOnly(options: ReasoningOptions, target: Target): ThinkingFields {
  const effort = vendorEffort(effortOf(options), { efforts: effortsOf(target) });
  return { effort, isOn: false, isDropped: effort === undefined };
}

function effortsOf({ quirks, upstreamModel }: Target): EffortNames {
  return quirks.efforts ?? generationOf(upstreamModel)?.efforts ?? usualEfforts;
}

function budget(options: ReasoningOptions, outputTokensMax: number): ThinkingFields {
  const requestedTokens = options.budgetTokens ?? budgets[options.effort ?? 'medium'];
  const tokens = budgetWithin(requestedTokens, outputTokensMax);
  if (tokens === undefined) return unsupportedThinking;
  const thinking = { type: 'enabled', budget_tokens: tokens };
  return { thinking, isOn: true, isDropped: false };
}

/** Returns the budget that fits below the output limit; undefined if not even the minimum does. */
export function budgetWithin(requested: number, outputTokensMax: number): number | undefined {
  if (outputTokensMax <= budgetTokensMin) return undefined;
  return Math.max(Math.min(requested, outputTokensMax - answerTokens), budgetTokensMin);
}

/**
 * Returns true if the model's latest tool calls lack the thinking that led to them, usually because
 * the client dropped unknown fields. While thinking is on, a model rejects such a conversation.
 */
function lacksThinking(turns: readonly Turn[]): boolean {
  const last = turns.findLast(({ role }) => role === 'assistant');
  if (last?.role !== 'assistant') return false;
  if (!last.parts.some(({ kind }) => kind === 'tool_call')) return false;
  return !last.parts.some(
    (part) =>
      part.kind === 'reasoning' &&
      (isAnthropicRedacted(part.redacted) ||
        ownSignature('anthropic', part.signature) !== undefined),
  );
}
