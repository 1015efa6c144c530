/** Token counts as Anthropic reports them, in and out. */
import { type Fields, fieldsOf, isObject, objectsIn } from '../../core/json.ts';
import {
  addUsage,
  charactersPerToken,
  noUsage,
  promptTokens,
  totalTokens,
  type Usage,
  uncachedTokens,
  writtenTokens,
} from '../../core/usage.ts';
import { readCount } from '../normalize/responses/counts.ts';

/**
 * Iterations that are billed but missing from the totals at the top of the report: Anthropic's
 * summaries of the conversation, and the advice of another model.
 */
const billedSeparately: ReadonlySet<unknown> = new Set(['compaction', 'advisor_message']);

/** Anthropic's counts do not overlap, as ours do not. Undefined if they cannot be trusted. */
export function readUsage(raw: unknown): Usage | undefined {
  if (!isObject(raw)) return undefined;
  const top = readCounts(raw);
  if (top === undefined) return undefined;
  const rounds = objectsIn(raw.iterations);
  const separate = rounds.filter(({ type }) => billedSeparately.has(type)).map(readCounts);
  const usage = separate.reduce<Usage>((sum, more) => (more ? addUsage(sum, more) : sum), top);
  // No request has an empty prompt: a server that reports one has not counted. The exception is a
  // program that runs at Anthropic and continues by calling tools: that uses no tokens, and its
  // report has `server_tool_use`.
  const isFree = totalTokens(usage) === 0 && isObject(raw.server_tool_use);
  return promptTokens(usage) > 0 || isFree ? usage : undefined;
}

function readCounts(raw: Fields): Usage | undefined {
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
 * The tokens written to a cache, and how many of them are kept for an hour. Some servers report
 * the parts but no total. The end of a stream may report a larger total without parts: then the
 * part for an hour stays as first reported. Parts that exceed the total are ignored.
 */
function readWritten({ cache_creation_input_tokens: total, cache_creation: breakdown }: Fields) {
  const { ephemeral_5m_input_tokens: minutes, ephemeral_1h_input_tokens: hour } =
    fieldsOf(breakdown);
  const all = readCount(minutes) + readCount(hour);
  const written = total === undefined || total === null ? all : readCount(total);
  const forHour = all <= written ? readCount(hour) : 0;
  return { cacheWriteTokens: written - forHour, cacheWrite1hTokens: forHour || undefined };
}

/**
 * Servers that count the prompt at the start may report zeros at the end: the first count stays.
 */
function withoutEmptyPrompt(raw: Fields): Fields {
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, ...rest } = raw;
  const isEmpty = !(input_tokens || cache_read_input_tokens || cache_creation_input_tokens);
  return isEmpty ? { ...rest, cache_creation: null } : raw;
}

/**
 * The usage of a stream while it comes. The first report counts the prompt but has a placeholder
 * for the output; a client that leaves before the last report still pays for the words it got.
 */
export class StreamUsage {
  #raw: Fields = {};
  #read: Usage | undefined;
  #isFinal = false;
  outputCharacters = 0;

  /** The report of `message_start`. */
  begin(raw: unknown): void {
    this.#merge(raw);
  }

  /** The report of `message_delta`: it corrects the first report, and may omit unchanged counts. */
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

  /** Whether the count of the output is still a placeholder or a guess. */
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

/** The `usage` object that our clients see. */
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

/** Written only if some is kept for an hour: not every upstream says how long it keeps a cache. */
function writeCacheBreakdown({ cacheWriteTokens, cacheWrite1hTokens }: Usage) {
  if (!cacheWrite1hTokens) return {};
  const forMinutes = { ephemeral_5m_input_tokens: cacheWriteTokens };
  return { cache_creation: { ...forMinutes, ephemeral_1h_input_tokens: cacheWrite1hTokens } };
}

/** The usage in the first event of a stream: an estimate until its end. */
export function openingUsage(inputTokensEstimate: number) {
  return writeUsage({ ...noUsage, inputTokens: inputTokensEstimate });
}
