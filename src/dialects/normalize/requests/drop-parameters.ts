import type { Prompt, Sampling, Turn } from '../../../core/prompt.ts';
import { isForced } from './tools.ts';

// Removes the parameters that an upstream doesn't support from a prompt. The names are those that
// clients use.

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

const removeReasoning = ({ reasoning }: Prompt) =>
  reasoning === null ? undefined : { reasoning: null };

/**
 * Functions that remove one parameter from a prompt. They return undefined if the prompt doesn't
 * set it.
 */
const removals: Readonly<Record<string, (prompt: Prompt) => Partial<Prompt> | undefined>> = {
  stop: ({ stop }) => (stop.length > 0 ? { stop: [] } : undefined),
  user: ({ user }) => (user === null ? undefined : { user: null }),
  verbosity: ({ verbosity }) => (verbosity === undefined ? undefined : { verbosity: undefined }),
  prompt_cache_key: ({ promptCacheKey }) =>
    promptCacheKey === undefined ? undefined : { promptCacheKey: undefined },
  n: ({ choices }) => (choices > 1 ? { choices: 1 } : undefined),
  tools: ({ tools }) => (tools.length > 0 ? { tools: [] } : undefined),
  // Drop only a forced call. Dropping `none` would allow calls that the client forbade.
  tool_choice: ({ toolChoice }) => (isForced(toolChoice) ? { toolChoice: null } : undefined),
  // Parallel calls are every model's default, so only a request to disable them is dropped.
  parallel_tool_calls: ({ parallelTools }) =>
    parallelTools === false ? { parallelTools: null } : undefined,
  response_format: ({ json }) => (json === null ? undefined : { json: null }),
  reasoning: removeReasoning,
  reasoning_effort: removeReasoning,
  cache_control: ({ cacheControl }) => cacheControl && { cacheControl: undefined },
};

interface ReducedPrompt {
  readonly prompt: Prompt;
  /** The removed parameters, by name. Parameters that the prompt didn't set are left out. */
  readonly dropped: readonly string[];
}

/** Returns the prompt without these parameters. */
export function dropParameters(prompt: Prompt, names: Iterable<string>): ReducedPrompt {
  let current = prompt;
  const dropped = new Set<string>();
  for (const name of names) {
    const field = samplingFields[name];
    if (field !== undefined && current.sampling[field] !== undefined) {
      current = { ...current, sampling: { ...current.sampling, [field]: undefined } };
      dropped.add(name);
    }
    const change = removals[name]?.(current);
    if (change === undefined) continue;
    current = { ...current, ...change };
    dropped.add(name);
  }
  return { prompt: current, dropped: [...dropped] };
}

/**
 * Returns `['detail']` if the prompt sets the detail level of an image, which only OpenAI supports.
 */
export function detailNames({ turns }: Prompt): readonly string[] {
  return turns.some(requestsDetail) ? ['detail'] : [];
}

/** `auto` is the default of every model. */
function requestsDetail(turn: Turn): boolean {
  if (turn.role !== 'user') return false;
  return turn.parts.some((part) => part.kind === 'image' && (part.detail ?? 'auto') !== 'auto');
}
