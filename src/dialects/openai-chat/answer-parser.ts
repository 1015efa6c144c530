/**
 * Parses the answers of OpenAI-style upstreams. `passthrough/` and `upstream/` both use this
 * parser, so they agree on usage, failures, invalid events, and how an answer ended.
 */
import { isObject, type JsonObject, objectsIn } from '../../core/json.ts';
import { totalTokens, type Usage } from '../../core/usage.ts';
import type { ReadResult, SseMessage, UpstreamFailure } from '../dialect.ts';
import {
  failureInside,
  invalidJsonAnswer,
  invalidJsonEvent,
  malformed,
  readErrorObject,
} from '../failure.ts';
import { parseExact } from '../normalize/exact-json.ts';
import type { ChunkNormalizer } from './chunk.ts';
import { addSources, isChoiceIndex, sourcesIn } from './message.ts';
import { isPromptOnly, mergeUsage, outputDetailsIn, usageIn } from './usage.ts';

/** A chunk that isn't a failure. The terminator may stand for the last chunk. */
export interface ParsedChunk {
  readonly kind: 'chunk' | 'terminator';
  readonly chunk: JsonObject;
  readonly choices: readonly JsonObject[];
  readonly hasUsage: boolean;
}

/** One parsed event of a stream. `hasUsage`: the event updated the parser's `usage`. */
export type ChunkEvent =
  | ParsedChunk
  | { readonly kind: 'failed'; readonly failure: UpstreamFailure; readonly hasUsage: boolean }
  | { readonly kind: 'ignored'; readonly hasUsage: boolean };

const ignored: ChunkEvent = { kind: 'ignored', hasUsage: false };

export class ChunkParser {
  readonly normalizer: ChunkNormalizer;
  /**
   * `open`: choices that have started and not finished. `finished`: choices that had a finish
   * reason.
   */
  readonly choices = { open: new Set<number>(), finished: new Set<number>() };
  /** All usage reports so far, merged. */
  usage: Usage | undefined;
  /** True if the last report counted no output. */
  isPromptOnly = false;
  /** The upstream's own breakdown of the output tokens. */
  outputDetails: JsonObject | undefined;
  /** Set by `[DONE]`. Nothing is read after it. */
  isTerminated = false;

  constructor(normalizer: ChunkNormalizer) {
    this.normalizer = normalizer;
  }

  /** True once every choice that started has finished and no more content is expected. */
  get finished(): boolean {
    const { open, finished } = this.choices;
    return (
      finished.size > 0 &&
      open.size === 0 &&
      (this.isTerminated || !this.normalizer.continuesAfterFinish)
    );
  }

  parse({ event, data }: SseMessage): ChunkEvent {
    if (this.isTerminated) return ignored;
    if (isTerminator(data)) {
      this.isTerminated = true;
      return this.#terminator();
    }
    const chunk = parseExact(data);
    if (!isObject(chunk)) return this.#parseInvalid(event, data);
    const hasUsage = this.#readUsage(chunk);
    const failure = event === 'error' ? readErrorObject(chunk) : failureInside(chunk);
    if (failure !== undefined) return { kind: 'failed', failure, hasUsage };
    return { kind: 'chunk', chunk, choices: objectsIn(chunk.choices), hasUsage };
  }

  /** Records whether a normalized choice is open or has finished. */
  trackChoice({ index, finish_reason: reason }: JsonObject): void {
    if (!isChoiceIndex(index)) return;
    const { open, finished } = this.choices;
    if (typeof reason === 'string') {
      open.delete(index);
      finished.add(index);
    } else if (!finished.has(index)) open.add(index);
  }

  #parseInvalid(event: string | null, data: string): ChunkEvent {
    if (event === 'error') {
      return { kind: 'failed', failure: readErrorObject(data), hasUsage: false };
    }
    // A connection cut after the finish reason loses only the usage: the answer is complete.
    if (isNullChunk(data) || this.finished) return ignored;
    return { kind: 'failed', failure: invalidJsonEvent(data), hasUsage: false };
  }

  /**
   * Some servers end an answer with its usage and `[DONE]`, without a finish reason. Both together
   * mean that the answer is complete. Proxies send `[DONE]` alone even for answers that broke.
   */
  #terminator(): ChunkEvent {
    const isCounted = this.usage && totalTokens(this.usage) > 0 && !this.isPromptOnly;
    const open = isCounted ? [...this.choices.open] : [];
    const choices = open.map((index) => ({ index, delta: {}, finish_reason: 'stop' }));
    return { kind: 'terminator', chunk: { choices }, choices, hasUsage: false };
  }

  #readUsage(chunk: JsonObject): boolean {
    const usage = usageIn(chunk, this.usage);
    // Some servers put zeros into every chunk that has no usage.
    if (usage === undefined || (this.usage && totalTokens(usage) === 0)) return false;
    this.usage = mergeUsage(this.usage, usage);
    this.isPromptOnly = isPromptOnly(chunk, this.usage);
    this.outputDetails = outputDetailsIn(chunk) ?? this.outputDetails;
    return true;
  }
}

function isTerminator(data: string): boolean {
  return data === '[DONE]' || (data.length < 32 && data.trim() === '[DONE]');
}

/** Some servers send `null` between their chunks. */
function isNullChunk(data: string): boolean {
  return data.trim() === 'null';
}

/** A response with content, whose choices are not normalized yet. */
interface ParsedReply {
  readonly body: JsonObject;
  readonly choices: readonly JsonObject[];
  readonly usage: Usage | undefined;
  readonly isPromptOnly: boolean;
}

/** Parses a non-streaming response. */
export function parseReply(text: string): ReadResult<ParsedReply> {
  const body = parseExact(text);
  if (!isObject(body)) return { ok: false, failure: invalidJsonAnswer(text) };
  const failure = failureInside(body);
  if (failure !== undefined) return { ok: false, failure };
  const usage = usageIn(body);
  const isEstimate = usage !== undefined && isPromptOnly(body, usage);
  const choices = objectsIn(body.choices);
  const [first] = choices;
  if (isObject(first?.message)) addSources(first.message, sourcesIn(body));
  return { ok: true, value: { body, choices, usage, isPromptOnly: isEstimate } };
}

/** Returns the failure for a response without any output. */
export function noOutputFailure(): UpstreamFailure {
  return malformed('The provider returned neither output nor a finish reason.');
}
