/** The part of a dialogue that Anthropic's API, or Bedrock's, has words for. */
import type { Dialogue } from '../../core/dialogue.ts';
import { detailNames } from '../ask/content/picture-detail.ts';
import { leaveOut } from '../ask/leave-out.ts';
import { outputLimit } from '../ask/output-limit.ts';
import type { Target } from '../dialect.ts';
import { type ThinkingWords, thinkingFor } from './thinking.ts';

/** For models whose limit is unknown: enough for an answer. One that gives less needs its limit. */
const outputTokensDefault = 8_192;

/** Parameters that neither API has, by the names that clients give them. */
const unspoken = [
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

interface Sayable {
  readonly dialogue: Dialogue;
  readonly reasoning: ThinkingWords;
  /** The output cap: what the client named, or what it can pay for; null for none. */
  readonly limit: number | null;
  /** The output cap; without one, the most that the model gives. */
  readonly outputTokensMax: number;
  /** What was left out, by the client's names. Code that writes the request adds more names. */
  readonly dropped: Set<string>;
}

interface Ways {
  /** More parameters that this API does not have. */
  readonly alsoUnspoken?: readonly string[];
  /** The model takes `temperature` or `top_p`, not both. */
  readonly isPicky?: boolean;
}

export function sayable(
  asked: Dialogue,
  target: Target,
  { alsoUnspoken = [], isPicky = true }: Ways = {},
): Sayable {
  const names = [...unspoken, ...alsoUnspoken, ...(target.quirks.drop_params ?? [])];
  const spoken = leaveOut(asked, names);
  const limit = outputLimit(asked.outputTokensMax, target);
  const outputTokensMax = limit ?? target.modelOutputTokensMax ?? outputTokensDefault;
  const reasoning = thinkingFor(spoken.dialogue, target, outputTokensMax);
  const { temperature } = spoken.dialogue.sampling;
  const beside = temperature !== undefined && isPicky ? ['top_p'] : [];
  // Models that think refuse sampling parameters.
  const refused = reasoning.isOn ? ['temperature', 'top_p', 'top_k'] : beside;
  const sampled = leaveOut(spoken.dialogue, refused);
  const dropped = new Set([...spoken.dropped, ...sampled.dropped, ...detailNames(asked)]);
  if (reasoning.isDropped) dropped.add('reasoning');
  return { dialogue: sampled.dialogue, reasoning, limit, outputTokensMax, dropped };
}

/** Both APIs refuse blank stop sequences, and temperatures above 1, where OpenAI goes up to 2. */
export function writeLimits({ sampling, stop }: Dialogue, dropped: Set<string>) {
  const { temperature } = sampling;
  const stops = stop.filter((text) => text.trim() !== '');
  if (stops.length < stop.length) dropped.add('stop');
  return {
    temperature: temperature === undefined ? undefined : Math.min(temperature, 1),
    stops: stops.length > 0 ? stops : undefined,
  };
}
