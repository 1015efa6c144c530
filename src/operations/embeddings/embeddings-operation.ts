import { strict as assert } from 'node:assert';
import type { CacheIdentity, Operation } from '../../call.ts';
import { concurrentEmbeddingCalls } from '../../core/bounds.ts';
import type { Recording } from '../../core/recording.ts';
import type { RequestInfo } from '../../core/request-info.ts';
import { countCharacters, pluralize } from '../../core/text.ts';
import { charactersPerToken, type Measured, noUnits, noUsage } from '../../core/usage.ts';
import type {
  AnswerMetrics,
  ReadResult,
  ReplyIdentity,
  TransformedReply,
  UpstreamFailure,
} from '../../dialects/dialect.ts';
import { malformed } from '../../dialects/failure.ts';
import type {
  EmbeddingBatch,
  EmbeddingInput,
  EmbeddingsDialect,
  EmbeddingsOptions,
} from '../../dialects/media.ts';
import type { EmbeddingsRequest } from '../../dialects/openai-media/embeddings.ts';
import { dialects } from '../../dialects/registry.ts';
import { FixedBounds } from '../../money/price/bounds.ts';
import { estimateNote } from '../../money/price/usage-report.ts';
import type { Offer } from '../../route/catalog.ts';
import {
  type AttemptContext,
  type AttemptResult,
  attemptFull,
  failed,
  mediaTargetFor,
} from '../../upstream/attempt.ts';
import { decodeTokens, inputTokensMax } from './input-tokens.ts';
import { EmbeddingsReply, type InputCount } from './reply.ts';

/** The tokenizer that produced the token IDs that clients send. */
const clientTokenizer = 'cl100k_base';

/** Some servers put an instruction in front of each input. */
const addedTokensPerInputMax = 512;

/** An embeddings request: one charge, even if its inputs are sent in several upstream calls. */
export class EmbeddingsOperation implements Operation {
  readonly request: RequestInfo;
  readonly bounds: FixedBounds;
  readonly #options: EmbeddingsOptions;
  #texts: Promise<readonly string[]> | undefined;
  /** The inputs that the current offer has received. */
  #received: readonly EmbeddingInput[] = [];

  constructor({ request, options }: EmbeddingsRequest) {
    this.request = request;
    this.#options = options;
    const usage = { ...noUsage, inputTokens: inputTokensMax(options) };
    const addedTokensMax = options.inputs.length * addedTokensPerInputMax;
    this.bounds = new FixedBounds({ usage, units: noUnits }, addedTokensMax);
  }

  incompatibility({ model, dialect }: Offer): string | null {
    if (!model.features.includes('embeddings')) return 'is not an embedding model';
    return dialects[dialect].embeddings ? null : 'has no embeddings endpoint';
  }

  lostFields(offer: Offer): readonly string[] {
    const dialect = dialects[offer.dialect].embeddings;
    return dialect?.write(this.#options, mediaTargetFor(offer)).dropped ?? [];
  }

  async tryAt(offer: Offer, context: AttemptContext): Promise<AttemptResult> {
    const dialect = dialects[offer.dialect].embeddings;
    assert(dialect, `The plan has an offer whose dialect can't embed: ${offer.dialect}.`);
    const options = await this.#optionsFor(offer, dialect);
    const received: EmbeddingInput[] = [];
    this.#received = received;
    const result = await embedInBatches(options, dialect, offer, context, received);
    if (!result.ok) {
      const isAbandoned = context.clientSignal.aborted && received.length > 0;
      return failed({ ...result.failure, isAbandoned });
    }
    const batches = result.value;
    const vectors = batches.flatMap((batch) => batch.vectors);
    const count = inputCount(options, batches, this.bounds.tokensMaxFor());
    const reply = await EmbeddingsReply.create(vectors, count, options.encoding);
    context.recorder?.begin(offer, 'reply');
    context.recorder?.add(reply.toRecording() ?? '');
    return { kind: 'reply', reply: reply.toReply(context.identity) };
  }

  measure({ usage = noUsage, isEstimate = false }: AnswerMetrics): Measured {
    return { usage, units: noUnits, isEstimate, note: isEstimate ? estimateNote : null };
  }

  measureInput(): Measured {
    const usage = { ...noUsage, inputTokens: estimateTokens(this.#received) };
    return { usage, units: noUnits, isEstimate: true, note: estimateNote };
  }

  /** Omits the encoding, because a replay converts stored vectors to the requested encoding. */
  cacheIdentity(): CacheIdentity {
    const { inputs, dimensions, user, extraFields } = this.#options;
    return {
      cacheKeyInput: () => ({ inputs, dimensions, user, extraFields }),
      isRepeatable: true,
    };
  }

  replay(recording: Recording, identity: ReplyIdentity): TransformedReply | undefined {
    return EmbeddingsReply.replay(recording.text, this.#options.encoding)?.toReply(identity);
  }

  /**
   * Returns the options. If the offer can't read the client's token IDs, replaces them with text.
   */
  async #optionsFor({ model }: Offer, dialect: EmbeddingsDialect): Promise<EmbeddingsOptions> {
    const acceptsClientTokens = (model.tokenizer ?? clientTokenizer) === clientTokenizer;
    if (dialect.acceptsTokens && acceptsClientTokens) return this.#options;
    if (this.#options.inputs.every((input) => typeof input === 'string')) return this.#options;
    this.#texts ??= decodeTokens(this.#options);
    return { ...this.#options, inputs: await this.#texts };
  }
}

/**
 * Sends the inputs in as many calls as the offer needs, some of them concurrently. Adds the inputs
 * that the offer has answered, or was processing when the client disconnected, to `received`.
 */
async function embedInBatches(
  options: EmbeddingsOptions,
  dialect: EmbeddingsDialect,
  offer: Offer,
  context: AttemptContext,
  received: EmbeddingInput[],
): Promise<ReadResult<readonly EmbeddingBatch[]>> {
  const { inputs } = options;
  const batchSizeMax = Math.min(
    dialect.batchMax(options),
    offer.quirks.embedding_batch ?? inputs.length,
  );
  let size = Math.min(batchSizeMax, inputs.length);
  const batches: EmbeddingBatch[] = [];
  for (let sent = 0; sent < inputs.length; ) {
    // The answers of earlier calls have been parsed into vectors.
    context.releaseMemory();
    const nextBatches = splitIntoBatches(options, sent, size);
    const embedAndCount = async (batch: EmbeddingsOptions) => {
      const result = await embed(batch, dialect, offer, context);
      if (result.ok || result.failure.isAbandoned) received.push(...batch.inputs);
      return result;
    };
    for (const batch of await Promise.all(nextBatches.map(embedAndCount))) {
      if (!batch.ok) {
        if (size === 1 || !isBatchTooLarge(batch.failure)) return batch;
        // Send the rejected batch and those after it again, in batches of half the size.
        size = Math.ceil(size / 2);
        break;
      }
      batches.push(batch.value);
      sent += batch.value.vectors.length;
    }
  }
  return { ok: true, value: batches };
}

/**
 * Returns whether a batch was rejected because of its size. The limit of a self-hosted server
 * depends on its configuration. Vendors limit the inputs or the total tokens, and some return 400.
 */
function isBatchTooLarge({ status, message }: UpstreamFailure): boolean {
  if (status === 413) return true;
  return (status === 400 || status === 422) && batchLimitPattern.test(message);
}

/**
 * Mistral: "split into more batches". Alibaba: "batch size is invalid". OpenAI: "tokens per
 * request".
 */
const batchLimitPattern = /\bbatch(?:es)?\b|tokens per request|too many inputs/i;

/** Returns the next batches, which are sent concurrently. */
function splitIntoBatches(
  options: EmbeddingsOptions,
  from: number,
  size: number,
): readonly EmbeddingsOptions[] {
  const { inputs } = options;
  if (inputs.length <= size) return [options];
  const to = Math.min(inputs.length, from + size * concurrentEmbeddingCalls);
  return Array.from({ length: Math.ceil((to - from) / size) }, (_, index) => {
    const start = from + index * size;
    return { ...options, inputs: inputs.slice(start, start + size), isList: true };
  });
}

async function embed(
  options: EmbeddingsOptions,
  dialect: EmbeddingsDialect,
  offer: Offer,
  context: AttemptContext,
): Promise<ReadResult<EmbeddingBatch>> {
  const request = dialect.write(options, mediaTargetFor(offer));
  context.reportDropped(request.dropped ?? []);
  const read = (text: string) => readCompleteBatch(text, options, dialect);
  const batch = await attemptFull({ request, read }, offer, context);
  if (options.encoding !== 'base64' || batch.ok || !isEncodingRejection(batch.failure))
    return batch;
  // OpenAI's libraries request base64 by default. Some servers reject it, so request numbers.
  return embed({ ...options, encoding: 'float' }, dialect, offer, context);
}

function isEncodingRejection({ kind, param, message }: UpstreamFailure): boolean {
  return kind === 'request' && `${param} ${message}`.includes('encoding_format');
}

function readCompleteBatch(
  text: string,
  { inputs }: EmbeddingsOptions,
  dialect: EmbeddingsDialect,
): ReadResult<EmbeddingBatch> {
  const batch = dialect.readBatch(text);
  if (!batch.ok || batch.value.vectors.length === inputs.length) return batch;
  const found = pluralize(batch.value.vectors.length, 'embedding');
  const expected = pluralize(inputs.length, 'input');
  const message = `The provider returned ${found} for ${expected}.`;
  return { ok: false, failure: malformed(message) };
}

/** Returns the token count that is reported and charged, and reported again for a replay. */
function inputCount(
  { inputs }: EmbeddingsOptions,
  batches: readonly EmbeddingBatch[],
  tokensMax: number,
): InputCount {
  let reportedTokens = 0;
  // No input is empty, so 0 tokens can't be true.
  for (const { promptTokens } of batches) reportedTokens += promptTokens || Number.NaN;
  if (reportedTokens <= tokensMax) return { tokens: reportedTokens, isEstimate: false };
  return { tokens: estimateTokens(inputs), isEstimate: true };
}

function estimateTokens(inputs: readonly EmbeddingInput[]): number {
  let [characters, tokens] = [0, 0];
  for (const input of inputs) {
    if (typeof input === 'string') characters += countCharacters(input);
    else tokens += input.length;
  }
  return tokens + Math.ceil(characters / charactersPerToken);
}
