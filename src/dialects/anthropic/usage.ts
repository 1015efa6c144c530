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
import { readCount } from '../answer/counts.ts';

/**
 * Rounds that are billed and counted nowhere else: summaries that Anthropic made of the
 * conversation, and what another model advised. The others are in the top of the report.
 */
const isBeside: ReadonlySet<unknown> = new Set(['compaction', 'advisor_message']);

/** Anthropic's classes do not overlap either. Undefined when the numbers cannot be trusted. */
export function readUsage(raw: unknown): Usage | undefined {
  if (!isObject(raw)) return undefined;
  const top = readCounts(raw);
  if (top === undefined) return undefined;
  const rounds = objectsIn(raw.iterations);
  const beside = rounds.filter(({ type }) => isBeside.has(type)).map(readCounts);
  const usage = beside.reduce<Usage>((sum, more) => (more ? addUsage(sum, more) : sum), top);
  // No request has an empty prompt: a server that says so has not counted. Except where a program
  // that runs at Anthropic goes on to call tools: then no tokens are used, but `server_tool_use` is
  // told.
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
 * What was written to a cache, and how much of it is kept for an hour. Some servers tell the parts
 * and no whole. The end of a stream may tell a larger whole and no parts: the hour's part stays.
 * Parts that are more than the whole are not believed.
 */
function readWritten({ cache_creation_input_tokens: whole, cache_creation: parts }: Fields) {
  const { ephemeral_5m_input_tokens: minutes, ephemeral_1h_input_tokens: hour } = fieldsOf(parts);
  const all = readCount(minutes) + readCount(hour);
  const written = whole === undefined || whole === null ? all : readCount(whole);
  const forHour = all <= written ? readCount(hour) : 0;
  return { cacheWriteTokens: written - forHour, cacheWrite1hTokens: forHour || undefined };
}

/**
 * Servers that count the prompt at the beginning may write zeros at the end: the first count holds.
 */
function withoutEmptyPrompt(raw: Fields): Fields {
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, ...rest } = raw;
  const isEmpty = !(input_tokens || cache_read_input_tokens || cache_creation_input_tokens);
  return isEmpty ? { ...rest, cache_creation: null } : raw;
}

/**
 * The usage of a stream while it comes. The first report knows the prompt and has a placeholder for
 * the output; a client that leaves before the last one still pays for the words it got.
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

  /** The report of `message_delta`: it corrects the first, and leaves out what did not change. */
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

  /** Whether the output is guessed, or a placeholder still. */
  get isEstimate(): boolean {
    return !this.#isFinal;
  }

  #merge(raw: unknown): void {
    if (!isObject(raw)) return;
    const given = Object.entries(raw).filter(([, value]) => value !== null);
    this.#raw = { ...this.#raw, ...Object.fromEntries(given) };
    this.#read = readUsage(this.#raw);
  }
}

/** The `usage` object that our clients see. */
export function writeUsage(usage: Usage) {
  return {
    input_tokens: uncachedTokens(usage),
    cache_creation_input_tokens: writtenTokens(usage),
    cache_read_input_tokens: usage.cacheReadTokens,
    ...writeParts(usage),
    output_tokens: usage.outputTokens,
    ...(usage.reasoningTokens > 0
      ? { output_tokens_details: { thinking_tokens: usage.reasoningTokens } }
      : {}),
  };
}

/** Only where some is kept for an hour: not every upstream says how long it keeps what. */
function writeParts({ cacheWriteTokens, cacheWrite1hTokens }: Usage) {
  if (!cacheWrite1hTokens) return {};
  const forMinutes = { ephemeral_5m_input_tokens: cacheWriteTokens };
  return { cache_creation: { ...forMinutes, ephemeral_1h_input_tokens: cacheWrite1hTokens } };
}

/** What a stream begins with, when only its end will know better. */
export function openingUsage(inputTokensEstimate: number) {
  return writeUsage({ ...noUsage, inputTokens: inputTokensEstimate });
}
