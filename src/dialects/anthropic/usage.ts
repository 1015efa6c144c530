/** Converts between Anthropic's token counts and neutral usage. */
import { fieldsOf, isObject, type JsonObject, objectsIn } from '../../core/json.ts';
import {
  addUsage,
  charactersPerToken,
  noUsage,
  totalTokens,
  type Usage,
  uncachedTokens,
  writtenTokens,
} from '../../core/usage.ts';
import { readCount } from '../normalize/responses/counts.ts';

/**
 * The types of iterations that are billed but missing from the top-level totals: Anthropic's
 * summaries of the conversation, and answers from an advisor model.
 */
const billedSeparately: ReadonlySet<unknown> = new Set(['compaction', 'advisor_message']);

/** Reads a usage report. Returns undefined if there is none or its counts are invalid. */
export function readUsage(raw: unknown): Usage | undefined {
  if (!isObject(raw)) return undefined;
  const isReport = typeof raw.input_tokens === 'number' || typeof raw.output_tokens === 'number';
  const top = isReport ? readCounts(raw) : undefined;
  if (top === undefined) return undefined;
  const iterations = objectsIn(raw.iterations);
  const separate = iterations
    .filter(({ type }) => billedSeparately.has(type))
    .map(readCounts)
    .filter((iterationUsage) => iterationUsage !== undefined);
  const usage = separate.reduce<Usage>(addUsage, top);
  // The report has `server_tool_use` only if Anthropic ran a tool. Summaries and advice read the
  // prompt once more.
  const includesToolResults = isObject(raw.server_tool_use) || separate.length > 0;
  return includesToolResults ? { ...usage, includesToolResults } : usage;
}

function readCounts(raw: JsonObject): Usage | undefined {
  const details = fieldsOf(raw.output_tokens_details);
  const usage = {
    inputTokens: readCount(raw.input_tokens),
    cacheReadTokens: readCount(raw.cache_read_input_tokens),
    ...readWritten(raw),
    outputTokens: readCount(raw.output_tokens),
    reasoningTokens: readCount(details.thinking_tokens),
  };
  return Number.isNaN(totalTokens(usage) + usage.reasoningTokens) ? undefined : usage;
}

/**
 * Reads the tokens written to a cache, by TTL. Some servers report counts by TTL but no total. The
 * last report of a stream may have a larger total without counts by TTL. The 1-hour count then
 * stays as first reported. Counts by TTL that exceed the total are ignored.
 */
function readWritten({
  cache_creation_input_tokens: total,
  cache_creation: breakdown,
}: JsonObject) {
  const { ephemeral_5m_input_tokens: minutes, ephemeral_1h_input_tokens: hour } =
    fieldsOf(breakdown);
  const all = readCount(minutes) + readCount(hour);
  const written = total === undefined || total === null ? all : readCount(total);
  const forHour = all <= written ? readCount(hour) : 0;
  return { cacheWriteTokens: written - forHour, cacheWrite1hTokens: forHour || undefined };
}

/** Removes prompt counts of zero from a stream's last report, so that the first counts are kept. */
function withoutEmptyPrompt(raw: JsonObject): JsonObject {
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, ...rest } = raw;
  const isEmpty = !(input_tokens || cache_read_input_tokens || cache_creation_input_tokens);
  return isEmpty ? { ...rest, cache_creation: null } : raw;
}

/**
 * Tracks the usage of a running stream. The first report counts the prompt but has only a
 * placeholder for the output. If the client disconnects before the last report, the output is
 * estimated from the text that it received.
 */
export class StreamUsage {
  #raw: JsonObject = {};
  #read: Usage | undefined;
  #isFinal = false;
  outputCharacters = 0;

  /** Reads the report in `message_start`. */
  begin(raw: unknown): void {
    this.#merge(raw);
  }

  /** Reads the report in `message_delta`, which may omit unchanged counts. */
  end(raw: unknown): void {
    this.#isFinal ||= isObject(raw) && typeof raw.output_tokens === 'number';
    this.#merge(isObject(raw) ? withoutEmptyPrompt(raw) : raw);
  }

  get usage(): Usage | undefined {
    const read = this.#read;
    if (read === undefined || this.#isFinal) return read;
    const delivered = Math.floor(this.outputCharacters / charactersPerToken);
    return delivered > read.outputTokens ? { ...read, outputTokens: delivered } : read;
  }

  /** True while the output count is a placeholder or an estimate. */
  get isEstimate(): boolean {
    return !this.#isFinal;
  }

  #merge(raw: unknown): void {
    if (!isObject(raw)) return;
    const reported = Object.entries(raw).filter(([, value]) => value !== null);
    this.#raw = { ...this.#raw, ...Object.fromEntries(reported) };
    this.#read = readUsage(this.#raw);
  }
}

/** Writes the `usage` object for clients. */
export function writeUsage(usage: Usage) {
  return {
    input_tokens: uncachedTokens(usage),
    cache_creation_input_tokens: writtenTokens(usage),
    cache_read_input_tokens: usage.cacheReadTokens,
    ...writeCacheBreakdown(usage),
    output_tokens: usage.outputTokens,
    ...(usage.reasoningTokens > 0
      ? { output_tokens_details: { thinking_tokens: usage.reasoningTokens } }
      : {}),
  };
}

/**
 * Writes counts by TTL only if the upstream reported writes to a 1-hour cache. Not every upstream
 * reports TTLs.
 */
function writeCacheBreakdown({ cacheWriteTokens, cacheWrite1hTokens }: Usage) {
  if (!cacheWrite1hTokens) return {};
  const forMinutes = { ephemeral_5m_input_tokens: cacheWriteTokens };
  return { cache_creation: { ...forMinutes, ephemeral_1h_input_tokens: cacheWrite1hTokens } };
}

/** Writes the estimated usage for the first event of a stream. */
export function openingUsage(inputTokensEstimate: number) {
  return writeUsage({ ...noUsage, inputTokens: inputTokensEstimate });
}
