import { unsupportedNamesMax } from '../../../core/bounds.ts';
import { fieldsOf, isNonEmptyString } from '../../../core/json.ts';
import type { Prompt, Sampling, TextPart, UnsupportedPart } from '../../../core/prompt.ts';
import { isForced } from './tools.ts';

interface AnyPart {
  readonly type?: string | null;
}

/** Collects the names of options that only upstreams of the client's own dialect support. */
export class UnsupportedNames {
  readonly #names = new Set<string>();
  unsupportedPart: UnsupportedPart | undefined;

  /** Records a name once, up to a limit. */
  add(name: string): void {
    if (this.#names.size < unsupportedNamesMax) this.#names.add(name);
  }

  /** Records the first part without a neutral form. Empty texts don't count. */
  noteUnsupported<Part extends AnyPart>(
    parts: readonly Part[],
    isRepresentable: (part: Part) => boolean,
    path: string,
  ): void {
    const index = parts.findIndex((part) => !isRepresentable(part));
    const type = parts[index]?.type;
    if (type) this.unsupportedPart ??= { param: `${path}[${index}]`, type };
  }

  get list(): readonly string[] {
    return [...this.#names];
  }
}

/** Returns the text of a part of an unknown type, if it has one. */
export function textPartsOf(part: AnyPart): readonly TextPart[] {
  const { text } = fieldsOf(part);
  return isNonEmptyString(text) ? [{ kind: 'text', text }] : [];
}

/** Removes from a prompt what an upstream doesn't support, by the client's parameter names. */

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

/** How to remove each other parameter from a prompt; undefined if the prompt doesn't set it. */
const removals: Readonly<Record<string, (prompt: Prompt) => Partial<Prompt> | undefined>> = {
  stop: ({ stop }) => (stop.length > 0 ? { stop: [] } : undefined),
  user: ({ user }) => (user === null ? undefined : { user: null }),
  verbosity: ({ verbosity }) => (verbosity === undefined ? undefined : { verbosity: undefined }),
  prompt_cache_key: ({ promptCacheKey }) =>
    promptCacheKey === undefined ? undefined : { promptCacheKey: undefined },
  n: ({ choices }) => (choices > 1 ? { choices: 1 } : undefined),
  tools: ({ tools }) => (tools.length > 0 ? { tools: [] } : undefined),
  // Only a forced call is removed: `none` forbids calls, which is a different option.
  tool_choice: ({ toolChoice }) => (isForced(toolChoice) ? { toolChoice: null } : undefined),
  // Parallel calls are every model's default, so only disabling them is an option.
  parallel_tool_calls: ({ parallelTools }) =>
    parallelTools === false ? { parallelTools: null } : undefined,
  response_format: ({ json }) => (json === null ? undefined : { json: null }),
  reasoning: removeReasoning,
  reasoning_effort: removeReasoning,
  cache_control: ({ cacheControl }) => cacheControl && { cacheControl: undefined },
};

interface ReducedPrompt {
  readonly prompt: Prompt;
  /** The names that the prompt set. */
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
