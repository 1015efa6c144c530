/** What of a dialogue can be said to a model of Anthropic's, at its own door or at Bedrock's. */
import type { Dialogue } from '../../core/dialogue.ts';
import { detailNames } from '../ask/content/picture-detail.ts';
import { leaveOut } from '../ask/leave-out.ts';
import { outputLimit } from '../ask/output-limit.ts';
import type { Target } from '../dialect.ts';
import { type ThinkingWords, thinkingFor } from './thinking.ts';

/** Where nobody knows what the model can give: enough for an answer, and every model has it. */
const outputTokensDefault = 8_192;

/** Neither has words for these, by the names that clients give them. */
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
  /** The output cap that somebody named; null for none. */
  readonly limit: number | null;
  /** The same, or else the most that the model gives. */
  readonly outputTokensMax: number;
  /** What was left out, by the client's names; whoever writes the request adds to it. */
  readonly dropped: Set<string>;
}

interface Ways {
  /** More parameters that it has no words for. */
  readonly alsoUnspoken?: readonly string[];
  /** It takes `temperature` or `top_p`, not both. */
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
  // No model samples while it thinks.
  const refused = reasoning.isOn ? ['temperature', 'top_p', 'top_k'] : beside;
  const sampled = leaveOut(spoken.dialogue, refused);
  const dropped = new Set([...spoken.dropped, ...sampled.dropped, ...detailNames(asked)]);
  if (reasoning.isDropped) dropped.add('reasoning');
  return { dialogue: sampled.dialogue, reasoning, limit, outputTokensMax, dropped };
}

/** Both refuse blank stop sequences, and temperatures above 1; OpenAI's scale goes on to 2. */
export function writeLimits({ sampling, stop }: Dialogue, dropped: Set<string>) {
  const { temperature } = sampling;
  const stops = stop.filter((text) => text.trim() !== '');
  if (stops.length < stop.length) dropped.add('stop');
  return {
    temperature: temperature === undefined ? undefined : Math.min(temperature, 1),
    stops: stops.length > 0 ? stops : undefined,
  };
}
