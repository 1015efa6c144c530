/** Reads and writes token counts in the format of OpenAI-style servers. */
import { fieldsOf, isObject, itemsOf, type JsonObject } from '../../core/json.ts';
import {
  noUsage,
  promptTokens,
  totalTokens,
  type Usage,
  uncachedTokens,
  writtenTokens,
} from '../../core/usage.ts';
import { hiddenOutputMax, readCount, uncachedAudio } from '../normalize/responses/counts.ts';
import { isPrivateName } from '../normalize/responses/private-fields.ts';

/** Returns undefined if the numbers can't be trusted; the caller then estimates the usage. */
export function readUsage(raw: unknown): Usage | undefined {
  if (!isObject(raw)) return undefined;
  const hasPrompt = typeof raw.prompt_tokens === 'number';
  const hasCompletion = typeof raw.completion_tokens === 'number';
  if (!hasPrompt && !hasCompletion) return undefined;
  const { prompt_tokens_details: inPrompt, completion_tokens_details: inOutput } = raw;
  // Mistral sometimes sends this field name in the singular.
  const promptDetails = fieldsOf(inPrompt ?? raw.prompt_token_details);
  const outputDetails = fieldsOf(inOutput);
  const reportedPrompt = readCount(raw.prompt_tokens);
  const completion = readCount(raw.completion_tokens);
  const total = readCount(raw.total_tokens);
  // SGLang counts reasoning outside the details. It can't exceed the output.
  const separate = readCount(raw.reasoning_tokens);
  const reasoning = Math.max(
    readCount(outputDetails.reasoning_tokens),
    separate <= completion ? separate : 0,
  );
  const reportedCache = readCache(raw, promptDetails);
  const sum = reportedPrompt + completion + total + reasoning + reportedCache.total;
  if (Number.isNaN(sum)) return undefined;

  const prompt = hasPrompt ? reportedPrompt : Math.max(0, total - completion);
  // If the total exceeds the sum of prompt and completion, it includes output that isn't in
  // `completion_tokens` (xAI, Gemini), or cached tokens that aren't in the prompt count.
  const surplus = Math.max(0, total - prompt - completion);
  // The prompt count includes cached tokens, unless the total or Anthropic's names for them say
  // otherwise. Mistral and xAI sometimes report more cached tokens than the prompt has.
  const isExceeded = reportedCache.read > prompt || reportedCache.written > prompt;
  const isCachedInTotal = isExceeded && surplus !== reasoning && surplus >= reportedCache.total;
  const isSeparate = isCachedInTotal || (isExceeded && reportedCache.hasOwnNames);
  const cacheRead = isSeparate ? reportedCache.read : Math.min(reportedCache.read, prompt);
  const cacheWrite = isSeparate
    ? reportedCache.written
    : Math.min(reportedCache.written, prompt - cacheRead);
  const uncached = isSeparate ? prompt : prompt - cacheRead - cacheWrite;
  const hidden = isCachedInTotal ? surplus - reportedCache.total : surplus;
  const isHiddenOutput = !hasCompletion || hidden === reasoning || hidden <= hiddenOutputMax;
  const { audio_tokens: audioTokens, cached_tokens_details: inCache } = promptDetails;
  // Only some servers report cached audio tokens.
  const cachedAudio = readCount(fieldsOf(inCache).audio_tokens);
  const audio = uncachedAudio(readCount(audioTokens), cachedAudio, { prompt, cacheRead, uncached });
  const forHours = writtenForHours(raw, promptDetails, cacheWrite);
  return {
    inputTokens: uncached - audio,
    inputAudioTokens: audio || undefined,
    cacheReadTokens: cacheRead,
    cacheWriteTokens: cacheWrite - forHours,
    cacheWrite1hTokens: forHours || undefined,
    outputTokens: completion + (isHiddenOutput ? hidden : 0),
    reasoningTokens: reasoning,
    includesToolResults: hasToolResults(raw) || undefined,
  };
}

interface CacheCounts {
  readonly read: number;
  readonly written: number;
  readonly total: number;
  /** True if the counts have Anthropic's names, which never include cached tokens in the prompt. */
  readonly hasOwnNames: boolean;
}

function readCache(raw: JsonObject, details: JsonObject): CacheCounts {
  // Gateways in front of Anthropic add Anthropic's field names to OpenAI's. Perplexity and Alibaba
  // send those names in the details.
  const ownRead = Math.max(
    readCount(raw.cache_read_input_tokens),
    readCount(details.cache_read_input_tokens),
  );
  const ownWritten = Math.max(
    readCount(raw.cache_creation_input_tokens),
    readCount(details.cache_creation_input_tokens),
  );
  const read = Math.max(
    ownRead,
    readCount(details.cached_tokens),
    readCount(raw.cached_tokens),
    readCount(raw.num_cached_tokens),
    readCount(raw.prompt_cache_hit_tokens),
  );
  const written = Math.max(
    ownWritten,
    readCount(details.cache_write_tokens),
    readCount(details.cache_creation_tokens),
  );
  return { read, written, total: read + written, hasOwnNames: ownRead + ownWritten > 0 };
}

/** Counts of the provider's own tool calls, in the names of xAI, OpenRouter, and Perplexity. */
const toolCounts = [
  ...['server_tool_use', 'server_tool_use_details', 'server_side_tool_usage_details'],
  ...['num_sources_used', 'num_server_side_tools_used', 'num_search_queries'],
];

/** True if the provider ran tools of its own. Their results are part of the prompt. */
function hasToolResults(raw: JsonObject): boolean {
  const isCounted = (count: unknown) => typeof count === 'number' && count > 0;
  return toolCounts.some((name) => {
    const counted = raw[name];
    return isObject(counted) ? Object.values(counted).some(isCounted) : isCounted(counted);
  });
}

/**
 * Returns how many tokens were written to a cache with a long TTL: Anthropic's 1 hour, in LiteLLM's
 * field or Anthropic's own, or OpenAI's 12 hours. A count that exceeds all cache writes is ignored.
 */
function writtenForHours(raw: JsonObject, details: JsonObject, written: number): number {
  const forHours = Math.max(
    readCount(fieldsOf(details.cache_creation_token_details).ephemeral_1h_input_tokens),
    readCount(fieldsOf(raw.cache_creation).ephemeral_1h_input_tokens),
    readCount(fieldsOf(details.cache_write_tokens_details).ttl_12h_tokens),
  );
  return forHours <= written ? forHours : 0;
}

/** Reads the usage of images and speech, whose counts have other names. */
export function readMediaUsage(raw: unknown): Usage | undefined {
  if (!isObject(raw)) return undefined;
  const details = fieldsOf(raw.input_tokens_details);
  const [input, outputTokens] = [readCount(raw.input_tokens), readCount(raw.output_tokens)];
  const cacheReadTokens = Math.min(readCount(details.cached_tokens), input);
  const isCounted = input + outputTokens > 0 && !Number.isNaN(cacheReadTokens);
  if (!isCounted) return undefined;
  return { ...noUsage, inputTokens: input - cacheReadTokens, cacheReadTokens, outputTokens };
}

/**
 * Returns the usage of a chunk or a body. Groq may send it only in `x_groq`, and Moonshot only in
 * the choice that ends. `earlier` is the usage that the same stream has reported so far.
 */
export function usageIn(body: JsonObject, earlier?: Usage): Usage | undefined {
  const { usage: raw } = body;
  const usage = isObject(raw)
    ? (readUsage(raw) ?? readUsage(toPromptCounts(raw, earlier)))
    : undefined;
  if (usage !== undefined) return usage;
  const [choice] = itemsOf(body.choices);
  return readUsage(fieldsOf(body.x_groq).usage) ?? readUsage(fieldsOf(choice).usage);
}

/** True if a report has no output count at all, not even 0. */
export function isPromptOnly({ usage: raw }: JsonObject, { outputTokens }: Usage): boolean {
  if (outputTokens > 0 || !isObject(raw)) return false;
  return (raw.completion_tokens ?? raw.output_tokens ?? null) === null;
}

/**
 * Renames the counts `input_tokens` and `output_tokens`, which mlx-vlm and proxies in front of
 * Anthropic send in chat completions. The proxies don't include cached tokens in the input count,
 * and their last report in a stream has only the output count.
 */
function toPromptCounts(raw: JsonObject, earlier: Usage | undefined): JsonObject {
  const { input_tokens: input, output_tokens: completion_tokens, ...rest } = raw;
  const cached = [raw.cache_read_input_tokens, raw.cache_creation_input_tokens].map(readCount);
  const prompt = cached.reduce((sum, tokens) => sum + tokens, readCount(input));
  const isEnd = prompt === 0 && readCount(completion_tokens) > 0;
  const known = isEnd && earlier ? promptTokens(earlier) : prompt;
  return {
    ...rest,
    prompt_tokens: known === 0 ? undefined : known,
    completion_tokens,
    prompt_tokens_details: raw.input_tokens_details,
    completion_tokens_details: raw.output_tokens_details,
  };
}

/**
 * Merges two reports of one stream. The later report wins. But some servers leave out its details
 * or prompt count. In that case, the earlier report's details and prompt count are used.
 */
export function mergeUsage(earlier: Usage | undefined, later: Usage): Usage {
  if (earlier === undefined) return later;
  const reasoningTokens = Math.max(earlier.reasoningTokens, later.reasoningTokens);
  const includesToolResults = earlier.includesToolResults || later.includesToolResults;
  const hasNoDetails = promptTokens(later) === later.inputTokens;
  const isSamePrompt =
    later.inputTokens === 0 ||
    later.inputTokens === promptTokens(earlier) ||
    later.inputTokens === uncachedTokens(earlier);
  if (!hasNoDetails || !isSamePrompt) return { ...later, reasoningTokens, includesToolResults };
  const { outputTokens } = later;
  return { ...earlier, outputTokens, reasoningTokens, includesToolResults };
}

/** Writes cache writes, which OpenAI's format lacks, and audio tokens only if there are any. */
function writePromptDetails(usage: Usage) {
  const written = writtenTokens(usage);
  const { inputAudioTokens: audio = 0 } = usage;
  return {
    cached_tokens: usage.cacheReadTokens,
    ...(written > 0 ? { cache_write_tokens: written } : {}),
    ...(audio > 0 ? { audio_tokens: audio } : {}),
  };
}

/** Returns the upstream's breakdown of its output, such as accepted prediction tokens. */
export function outputDetailsIn({ usage }: JsonObject): JsonObject | undefined {
  const { completion_tokens_details: details } = fieldsOf(usage);
  return isObject(details) ? details : undefined;
}

/**
 * Merges the upstream's details with the settled numbers. Counts that exceed the output tokens are
 * dropped.
 */
function writeOutputDetails({ outputTokens, reasoningTokens }: Usage, reported: JsonObject) {
  const counts: JsonObject = {};
  for (const name in reported) {
    const count = reported[name];
    if (count !== null && readCount(count) <= outputTokens && !isPrivateName(name))
      counts[name] = count;
  }
  counts.reasoning_tokens = reasoningTokens;
  return counts;
}

/** Returns the `usage` object for clients. */
export function writeUsage(usage: Usage, cost: number, outputDetails: JsonObject = {}) {
  return {
    prompt_tokens: promptTokens(usage),
    completion_tokens: usage.outputTokens,
    total_tokens: totalTokens(usage),
    prompt_tokens_details: writePromptDetails(usage),
    completion_tokens_details: writeOutputDetails(usage, outputDetails),
    cost,
  };
}
