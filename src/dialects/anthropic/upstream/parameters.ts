import type { Effort, Prompt, ReasoningOptions, Turn } from '../../../core/prompt.ts';
import type { Target } from '../../dialect.ts';
import { detailNames } from '../../normalize/requests/content.ts';
import {
  effortOf,
  outputLimit,
  vendorEffort,
} from '../../normalize/requests/generation-options.ts';
import { isForced } from '../../normalize/requests/tools.ts';
import { dropParameters } from '../../normalize/requests/unsupported.ts';
import { isAnthropicRedacted, ownSignature } from '../../normalize/signature.ts';

/** The part of a dialogue that Anthropic's API, or Bedrock's, has words for. */

/** For models whose limit is unknown: enough for an answer. One that gives less needs its limit. */
const outputTokensDefault = 8_192;

/** Parameters that neither API has, by the names that clients give them. */
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
  /** The output cap: what the client named, or what it can pay for; null for none. */
  readonly limit: number | null;
  /** The output cap; without one, the most that the model gives. */
  readonly outputTokensMax: number;
  /** What was left out, by the client's names. Code that writes the request adds more names. */
  readonly dropped: Set<string>;
}

interface ModelLimits {
  /** More parameters that this API does not have. */
  readonly alsoUnsupported?: readonly string[];
  /** The model takes `temperature` or `top_p`, not both. */
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
  // Models that think refuse sampling parameters.
  const refused = reasoning.isOn ? ['temperature', 'top_p', 'top_k'] : excluded;
  const sampled = dropParameters(supported.prompt, refused);
  const dropped = new Set([...supported.dropped, ...sampled.dropped, ...detailNames(requested)]);
  if (reasoning.isDropped) dropped.add('reasoning');
  return { prompt: sampled.prompt, reasoning, limit, outputTokensMax, dropped };
}

/** Both APIs refuse blank stop sequences, and temperatures above 1, where OpenAI goes up to 2. */
export function writeLimits({ sampling, stop }: Prompt, dropped: Set<string>) {
  const { temperature } = sampling;
  const stops = stop.filter((text) => text.trim() !== '');
  if (stops.length < stop.length) dropped.add('stop');
  return {
    temperature: temperature === undefined ? undefined : Math.min(temperature, 1),
    stops: stops.length > 0 ? stops : undefined,
  };
}

/**
 * How Anthropic's models think, found by their names. The catalogue says this of its models; the
 * table is for models that an operator adds, which Bedrock and Vertex call by longer names.
 */

type EffortNames = Readonly<Record<string, string>>;

interface Generation {
  readonly names: RegExp;
  readonly thinking: 'adaptive' | 'budget';
  /** Left out for models that refuse a request with an effort. */
  readonly efforts?: EffortNames;
}

/** There is no word for `none`: a model that gets no effort decides by itself. */
const usualEfforts: EffortNames = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'max',
};

/** The first whose `names` match is the model's generation. */
const generations: readonly Generation[] = [
  { names: /claude-opus-4[-.]5\b/, thinking: 'budget', efforts: usualEfforts },
  // The first models of generation 4 may also have their family last: `claude-4-sonnet`.
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
  // Models whose thinking cannot be turned off, and models that are newer than this table.
  { names: /claude-/, thinking: 'adaptive', efforts: { none: 'low', ...usualEfforts } },
];

/** Undefined for other vendors' models, which may not think in either way. */
export function generationOf(upstreamModel: string): Generation | undefined {
  return generations.find(({ names }) => names.test(upstreamModel));
}

/** How a wish for reasoning is sent to Anthropic's models; each generation has its own fields. */

interface ThinkingFields {
  readonly thinking?: object;
  readonly effort?: string | undefined;
  /** The model will think, and so refuses sampling parameters. */
  readonly isOn: boolean;
  /** The wish could not be granted. */
  readonly isDropped: boolean;
}

const noThinking: ThinkingFields = { isOn: false, isDropped: false };
const unsupportedThinking: ThinkingFields = { isOn: false, isDropped: true };

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

function thinkingFor(
  { reasoning, turns, tools, toolChoice }: Prompt,
  target: Target,
  outputTokensMax: number,
): ThinkingFields {
  if (reasoning === null) return noThinking;
  switch (target.thinking) {
    case 'adaptive':
      return adaptive(reasoning, target, lacksThought(turns));
    case 'effort':
      return effortOnly(reasoning, target);
    case 'budget':
      if (reasoning.effort === 'none') return noThinking;
      // Thinking is refused together with a forced tool; the tool stays, as the client needs it.
      if (tools.length > 0 && isForced(toolChoice)) return unsupportedThinking;
      return lacksThought(turns) ? unsupportedThinking : budget(reasoning, outputTokensMax);
    case null:
      return reasoning.effort === 'none' ? noThinking : unsupportedThinking;
  }
}

function adaptive(
  options: ReasoningOptions,
  target: Target,
  isWithoutThought: boolean,
): ThinkingFields {
  const efforts = effortsOf(target);
  const effort = vendorEffort(effortOf(options), { efforts });
  // Only models that always think have an effort for `none`.
  const isOptional = efforts.none === undefined;
  if (isOptional && (options.effort === 'none' || isWithoutThought)) {
    const isDropped = options.effort !== 'none';
    return { thinking: { type: 'disabled' }, isOn: false, isDropped };
  }
  // Without `display`, newer models do not show their thinking.
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
  const tokens = Math.min(
    Math.max(requestedTokens, budgetTokensMin),
    outputTokensMax - answerTokensMin,
  );
  if (tokens < budgetTokensMin) return unsupportedThinking;
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
      (isAnthropicRedacted(part.redacted) ||
        ownSignature('anthropic', part.signature) !== undefined),
  );
}
