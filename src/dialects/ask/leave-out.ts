/** Leaves out of a dialogue what an upstream has no words for, and names it as the client does. */
import type { Dialogue, Sampling } from '../../core/dialogue.ts';
import { isForced } from './tools/tool-choice.ts';

const samplingFields: Readonly<Record<string, keyof Sampling>> = {
  temperature: 'temperature',
  top_p: 'topP',
  top_k: 'topK',
  seed: 'seed',
  presence_penalty: 'presencePenalty',
  frequency_penalty: 'frequencyPenalty',
  logprobs: 'logprobs',
  top_logprobs: 'topLogprobs',
  logit_bias: 'logitBias',
};

const withoutReasoning = ({ reasoning }: Dialogue) =>
  reasoning === null ? undefined : { reasoning: null };

/** How to take each of the other wishes out of a dialogue; undefined if it has no such wish. */
const without: Readonly<Record<string, (dialogue: Dialogue) => Partial<Dialogue> | undefined>> = {
  stop: ({ stop }) => (stop.length > 0 ? { stop: [] } : undefined),
  user: ({ user }) => (user === null ? undefined : { user: null }),
  verbosity: ({ verbosity }) => (verbosity === undefined ? undefined : { verbosity: undefined }),
  prompt_cache_key: ({ promptCacheKey }) =>
    promptCacheKey === undefined ? undefined : { promptCacheKey: undefined },
  n: ({ choices }) => (choices > 1 ? { choices: 1 } : undefined),
  tools: ({ tools }) => (tools.length > 0 ? { tools: [] } : undefined),
  // Only a forced call is left out: `none` forbids calls, which is another wish.
  tool_choice: ({ toolChoice }) => (isForced(toolChoice) ? { toolChoice: null } : undefined),
  // Parallel calls are every model's default, so only their refusal is a wish.
  parallel_tool_calls: ({ parallelTools }) =>
    parallelTools === false ? { parallelTools: null } : undefined,
  response_format: ({ json }) => (json === null ? undefined : { json: null }),
  reasoning: withoutReasoning,
  reasoning_effort: withoutReasoning,
  cache_control: ({ cacheControl }) => cacheControl && { cacheControl: undefined },
};

interface LeftOut {
  readonly dialogue: Dialogue;
  /** Those of the names for which the dialogue had a wish. */
  readonly dropped: readonly string[];
}

/** The dialogue without these parameters, which go by the client's names. */
export function leaveOut(dialogue: Dialogue, names: Iterable<string>): LeftOut {
  let left = dialogue;
  const dropped = new Set<string>();
  for (const name of names) {
    const field = samplingFields[name];
    if (field !== undefined && left.sampling[field] !== undefined) {
      left = { ...left, sampling: { ...left.sampling, [field]: undefined } };
      dropped.add(name);
    }
    const change = without[name]?.(left);
    if (change === undefined) continue;
    left = { ...left, ...change };
    dropped.add(name);
  }
  return { dialogue: left, dropped: [...dropped] };
}
