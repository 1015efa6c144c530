import { strict as assert } from 'node:assert';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CacheIdentity, Operation } from '../../call.ts';
import { concurrentEmbeddingCalls } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
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
import type { EmbeddingsRequest } from '../../dialects/openai-media/embeddings.ts';
import {
  type EmbeddingBatch,
  type EmbeddingsDialect,
  type EmbeddingsOptions,
  embeddingsDialect,
} from '../../dialects/registry.ts';
import { FixedBounds, maxTokensIn } from '../../money/price/bounds.ts';
import { estimateNote, isCredible } from '../../money/price/cost.ts';
import type { Offer } from '../../route/catalog.ts';
import {
  type AttemptContext,
  type AttemptResult,
  attemptFull,
  failed,
  mediaTargetFor,
} from '../../upstream/attempt.ts';
import { EmbeddingsReply, type InputCount } from './reply.ts';

/** How many tokens of another tokenizer one token of a client may become. */
const tokensPerToken = 2;

/** The vocabulary of the tokens that clients send. */
const clientTokenizer = 'cl100k_base';

/** Texts to be turned into vectors: one errand and one bill, however many calls they take. */
export class EmbeddingsOperation implements Operation {
  readonly request: RequestInfo;
  readonly bounds: FixedBounds;
  readonly #options: EmbeddingsOptions;
  #texts: Promise<readonly string[]> | undefined;

  constructor({ request, options }: EmbeddingsRequest) {
    this.request = request;
    this.#options = options;
    const usage = { ...noUsage, inputTokens: inputTokensMax(options) };
    this.bounds = new FixedBounds({ usage, units: noUnits });
  }

  incompatibility({ model, dialect }: Offer): string | null {
    if (!model.features.includes('embeddings')) return 'is not an embedding model';
    return embeddingsDialect(dialect) ? null : 'cannot be asked for embeddings where it is served';
  }

  async tryAt(offer: Offer, context: AttemptContext): Promise<AttemptResult> {
    const dialect = embeddingsDialect(offer.dialect);
    assert(dialect, `No embeddings at ${offer.dialect} were planned.`);
    const options = await this.#optionsFor(offer, dialect);
    const result = await embedInBatches(options, dialect, offer, context);
    if (!result.ok) return failed(result.failure);
    const batches = result.value;
    const vectors = batches.flatMap((batch) => batch.vectors);
    const count = inputCount(options, batches, this.bounds.contextTokensFor());
    const reply = await EmbeddingsReply.create(vectors, count, options.encoding);
    context.recorder?.begin(offer, 'whole');
    context.recorder?.add(reply.toRecording() ?? '');
    return { kind: 'reply', reply: reply.toReply(context.identity) };
  }

  measure({ usage = noUsage, isEstimate = false }: AnswerMetrics): Measured {
    return { usage, units: noUnits, isEstimate, note: isEstimate ? estimateNote : null };
  }

  /** The encoding does not count: vectors are kept in one form and written in the wanted one. */
  cacheIdentity(): CacheIdentity {
    const { inputs, dimensions, user, more } = this.#options;
    return { cacheKeyInput: () => ({ inputs, dimensions, user, more }), isRepeatable: true };
  }

  replay(recording: Recording, identity: ReplyIdentity): TransformedReply | undefined {
    return EmbeddingsReply.replay(recording.text, this.#options.encoding)?.toReply(identity);
  }

  /** The wish, with texts instead of tokens where the offer cannot read the client's tokens. */
  async #optionsFor({ model }: Offer, dialect: EmbeddingsDialect): Promise<EmbeddingsOptions> {
    const acceptsClientTokens = (model.tokenizer ?? clientTokenizer) === clientTokenizer;
    if (dialect.takesTokens && acceptsClientTokens) return this.#options;
    if (this.#options.inputs.every((input) => typeof input === 'string')) return this.#options;
    this.#texts ??= decodeTokens(this.#options);
    return { ...this.#options, inputs: await this.#texts };
  }
}

/** Sends the inputs in as many calls as they need, some of them at the same time. */
async function embedInBatches(
  options: EmbeddingsOptions,
  dialect: EmbeddingsDialect,
  offer: Offer,
  context: AttemptContext,
): Promise<ReadResult<readonly EmbeddingBatch[]>> {
  const { inputs } = options;
  const batchSizeMax = Math.min(
    dialect.batchMax(options),
    offer.quirks.embedding_batch ?? inputs.length,
  );
  let size = Math.min(batchSizeMax, inputs.length);
  const batches: EmbeddingBatch[] = [];
  for (let sent = 0; sent < inputs.length; ) {
    // The answers to the calls before have become vectors.
    context.releaseMemory();
    const chunks = nextChunks(options, sent, size);
    for (const batch of await Promise.all(
      chunks.map((chunk) => embed(chunk, dialect, offer, context)),
    )) {
      if (!batch.ok) {
        if (size === 1 || !isBatchTooLarge(batch.failure)) return batch;
        // The rest goes in parts half as long, from the first that was refused.
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
 * Self-hosted servers take as many texts as their start options say. Vendors have limits of their
 * own, on texts or on all tokens together, and some refuse more with 400.
 */
function isBatchTooLarge({ status, message }: UpstreamFailure): boolean {
  if (status === 413) return true;
  return (status === 400 || status === 422) && batchLimitPattern.test(message);
}

/** Mistral: «split into more batches»; Alibaba: «batch size is invalid»; OpenAI: the tokens. */
const batchLimitPattern = /\bbatch(?:es)?\b|tokens per request|too many inputs/i;

/** The parts that are sent at the same time. */
function nextChunks(
  options: EmbeddingsOptions,
  from: number,
  size: number,
): readonly EmbeddingsOptions[] {
  const { inputs } = options;
  if (inputs.length <= size) return [options];
  const to = Math.min(inputs.length, from + size * concurrentEmbeddingCalls);
  return Array.from({ length: Math.ceil((to - from) / size) }, (_, at) => {
    const start = from + at * size;
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
  if (options.encoding !== 'base64' || batch.ok || !isEncodingRefusal(batch.failure)) return batch;
  // OpenAI's libraries ask for base64 by default, and some servers refuse it: numbers will do.
  return embed({ ...options, encoding: 'float' }, dialect, offer, context);
}

function isEncodingRefusal({ kind, param, message }: UpstreamFailure): boolean {
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
  const message = `The upstream answered with ${found} for ${expected}.`;
  return { ok: false, failure: malformed(message) };
}

/**
 * The token count that the client is told and charged, and gets again if it repeats the request.
 */
function inputCount(
  { inputs }: EmbeddingsOptions,
  batches: readonly EmbeddingBatch[],
  contextTokens: number,
): InputCount {
  let reportedTokens = 0;
  for (const { promptTokens } of batches) reportedTokens += promptTokens ?? Number.NaN;
  const isReported = isCredible({ ...noUsage, inputTokens: reportedTokens }, contextTokens);
  if (isReported) return { tokens: reportedTokens, isEstimate: false };
  let [characters, tokens] = [0, 0];
  for (const input of inputs) {
    if (typeof input === 'string') characters += countCharacters(input);
    else tokens += input.length;
  }
  return { tokens: tokens + Math.ceil(characters / charactersPerToken), isEstimate: true };
}

function inputTokensMax({ inputs }: EmbeddingsOptions): number {
  let [bytes, tokens] = [0, 0];
  for (const input of inputs) {
    if (typeof input === 'string') bytes += Buffer.byteLength(input);
    else tokens += input.length;
  }
  return maxTokensIn(bytes) + tokens * tokensPerToken;
}

/** Tokens decoded before other requests get their turn: about a millisecond of work. */
const tokensAtOnce = 16_384;

/** The bytes of each token of cl100k_base in base64; a token's number is its place in the list. */
let vocabulary: Promise<readonly string[]> | undefined;

/** Loads the vocabulary with the first request that needs it: most processes never do. */
function loadVocabulary(): Promise<readonly string[]> {
  vocabulary ??= import('gpt-tokenizer/data/cl100k_base.tiktoken', {
    with: { type: 'text' },
  }).then(
    ({ default: lines }) => lines.split('\n').map((line) => line.split(' ')[0] ?? ''),
    (error) => {
      // The file could not be opened this time: the next request may try again.
      vocabulary = undefined;
      throw error;
    },
  );
  return vocabulary;
}

/**
 * The texts of inputs that clients cut into tokens themselves. OpenAI's libraries and LangChain do
 * so with cl100k_base, whatever the model; to any other model those numbers would be noise.
 */
async function decodeTokens({
  inputs,
  isList,
}: Pick<EmbeddingsOptions, 'inputs' | 'isList'>): Promise<readonly string[]> {
  const texts: string[] = [];
  let tokensSinceYield = 0;
  for (const [index, input] of inputs.entries()) {
    if (typeof input === 'string') {
      texts.push(input);
      continue;
    }
    const base64Tokens = await loadVocabulary();
    const pieces: Buffer[] = [];
    for (const [at, token] of input.entries()) {
      const bytes = base64Tokens[token];
      if (!bytes) throw unknownToken(token, isList ? `input[${index}][${at}]` : `input[${at}]`);
      pieces.push(Buffer.from(bytes, 'base64'));
      tokensSinceYield += 1;
      if (tokensSinceYield < tokensAtOnce) continue;
      tokensSinceYield = 0;
      await nextTurn();
    }
    texts.push(Buffer.concat(pieces).toString('utf8'));
  }
  return texts;
}

function unknownToken(token: number, path: string): GatewayError {
  return invalidRequest(`${path} is ${token}, which is no token of cl100k_base.`, path);
}
