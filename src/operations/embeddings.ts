import { strict as assert } from 'node:assert';
import type { Errand, Sameness } from '../call.ts';
import type { Ask } from '../core/ask.ts';
import { embeddingCallsAtOnce } from '../core/bounds.ts';
import { countCharacters } from '../core/characters.ts';
import { counted } from '../core/counted.ts';
import type { Recording } from '../core/recording.ts';
import { charactersPerToken, type Measured, noUnits, noUsage } from '../core/usage.ts';
import type {
  ReplyFacts,
  ReplyIdentity,
  ReplyRelay,
  UpstreamFailure,
} from '../dialects/dialect.ts';
import { malformed } from '../dialects/failure.ts';
import {
  type Batch,
  type EmbeddingsDialect,
  type EmbeddingsWish,
  embeddingsDialect,
} from '../dialects/media/embeddings.ts';
import type { EmbeddingsRequest } from '../dialects/openai/media/embeddings-request.ts';
import { FixedBounds, tokensWithin } from '../meter/bound.ts';
import { isCredible } from '../meter/credible.ts';
import { estimateNote } from '../meter/estimate.ts';
import type { Offer } from '../route/catalogue.ts';
import { type AttemptResult, failed } from '../upstream/attempt.ts';
import type { Link } from '../upstream/link.ts';
import { isFailure, tryWhole } from '../upstream/try-whole.ts';
import { EmbeddingsReply, type InputCount } from './embeddings-reply.ts';
import { targetAt } from './target.ts';
import { toTexts } from './token-text.ts';

/** How many tokens of another tokenizer one token of a client may become. */
const tokensPerToken = 2;

/** The vocabulary of the tokens that clients send. */
const clientsTokenizer = 'cl100k_base';

/** Texts to be turned into vectors: one errand and one bill, however many calls they take. */
export class EmbeddingsErrand implements Errand {
  readonly ask: Ask;
  readonly bounds: FixedBounds;
  readonly #wish: EmbeddingsWish;
  #texts: Promise<readonly string[]> | undefined;

  constructor({ ask, wish }: EmbeddingsRequest) {
    this.ask = ask;
    this.#wish = wish;
    const usage = { ...noUsage, inputTokens: inputBound(wish) };
    this.bounds = new FixedBounds({ usage, units: noUnits });
  }

  misfit({ model, dialect }: Offer): string | null {
    if (!model.features.includes('embeddings')) return 'is not an embedding model';
    return embeddingsDialect(dialect) ? null : 'cannot be asked for embeddings where it is served';
  }

  async tryAt(offer: Offer, link: Link): Promise<AttemptResult> {
    const dialect = embeddingsDialect(offer.dialect);
    assert(dialect, `No embeddings at ${offer.dialect} were planned.`);
    const wish = await this.#wordedFor(offer, dialect);
    const batches = await embedAll(wish, dialect, offer, link);
    if (isFailure(batches)) return failed(batches);
    const vectors = batches.flatMap((batch) => batch.vectors);
    const count = countOf(wish, batches, this.bounds.contextTokensAt());
    const reply = await EmbeddingsReply.make(vectors, count, wish.encoding);
    link.tape?.begin(offer, 'whole');
    link.tape?.add(reply.record() ?? '');
    return { kind: 'reply', relay: reply.relay(link.identity) };
  }

  measure({ usage = noUsage, isEstimate = false }: ReplyFacts): Measured {
    return { usage, units: noUnits, isEstimate, note: isEstimate ? estimateNote : null };
  }

  /** The encoding does not count: vectors are kept in one form and written in the wanted one. */
  sameness(): Sameness {
    const { inputs, dimensions, user, more } = this.#wish;
    return { wording: () => ({ inputs, dimensions, user, more }), isRepeatable: true };
  }

  replay(recording: Recording, identity: ReplyIdentity): ReplyRelay | undefined {
    return EmbeddingsReply.replay(recording.text, this.#wish.encoding)?.relay(identity);
  }

  /** The wish, with texts instead of tokens where the offer cannot read the client's tokens. */
  async #wordedFor({ model }: Offer, dialect: EmbeddingsDialect): Promise<EmbeddingsWish> {
    const takesTheirs = (model.tokenizer ?? clientsTokenizer) === clientsTokenizer;
    if (dialect.takesTokens && takesTheirs) return this.#wish;
    if (this.#wish.inputs.every((input) => typeof input === 'string')) return this.#wish;
    this.#texts ??= toTexts(this.#wish);
    return { ...this.#wish, inputs: await this.#texts };
  }
}

/** Sends the inputs in as many calls as they need, some of them at the same time. */
async function embedAll(
  wish: EmbeddingsWish,
  dialect: EmbeddingsDialect,
  offer: Offer,
  link: Link,
): Promise<readonly Batch[] | UpstreamFailure> {
  const { inputs } = wish;
  const most = Math.min(dialect.batchMax(wish), offer.quirks.embedding_batch ?? inputs.length);
  let size = Math.min(most, inputs.length);
  const batches: Batch[] = [];
  for (let done = 0; done < inputs.length; ) {
    // The answers to the calls before have become vectors.
    link.leaveRoom();
    const parts = nextParts(wish, done, size);
    for (const batch of await Promise.all(parts.map((part) => embed(part, dialect, offer, link)))) {
      if (isFailure(batch)) {
        if (size === 1 || !isTooMuchAtOnce(batch)) return batch;
        // The rest goes in parts half as long, from the first that was refused.
        size = Math.ceil(size / 2);
        break;
      }
      batches.push(batch);
      done += batch.vectors.length;
    }
  }
  return batches;
}

/**
 * Self-hosted servers take as many texts as their start options say. Vendors have limits of their
 * own, on texts or on all tokens together, and some refuse more with 400.
 */
function isTooMuchAtOnce({ status, message }: UpstreamFailure): boolean {
  if (status === 413) return true;
  return (status === 400 || status === 422) && ofOneCall.test(message);
}

/** Mistral: «split into more batches»; Alibaba: «batch size is invalid»; OpenAI: the tokens. */
const ofOneCall = /\bbatch(?:es)?\b|tokens per request|too many inputs/i;

/** The parts that are sent at the same time. */
function nextParts(wish: EmbeddingsWish, from: number, size: number): readonly EmbeddingsWish[] {
  const { inputs } = wish;
  if (inputs.length <= size) return [wish];
  const to = Math.min(inputs.length, from + size * embeddingCallsAtOnce);
  return Array.from({ length: Math.ceil((to - from) / size) }, (_, at) => {
    const start = from + at * size;
    return { ...wish, inputs: inputs.slice(start, start + size), isList: true };
  });
}

async function embed(
  wish: EmbeddingsWish,
  dialect: EmbeddingsDialect,
  offer: Offer,
  link: Link,
): Promise<Batch | UpstreamFailure> {
  const request = dialect.write(wish, targetAt(offer));
  link.tellDropped(request.dropped ?? []);
  const read = (text: string) => readWhole(text, wish, dialect);
  const batch = await tryWhole({ request, read }, offer, link);
  if (wish.encoding !== 'base64' || !isFailure(batch) || !isOfEncoding(batch)) return batch;
  // OpenAI's libraries ask for base64 by default, and some servers refuse it: numbers will do.
  return embed({ ...wish, encoding: 'float' }, dialect, offer, link);
}

function isOfEncoding({ kind, param, message }: UpstreamFailure): boolean {
  return kind === 'request' && `${param} ${message}`.includes('encoding_format');
}

function readWhole(
  text: string,
  { inputs }: EmbeddingsWish,
  dialect: EmbeddingsDialect,
): Batch | UpstreamFailure {
  const batch = dialect.read(text);
  if (isFailure(batch) || batch.vectors.length === inputs.length) return batch;
  const found = counted(batch.vectors.length, 'embedding');
  const wanted = counted(inputs.length, 'input');
  return malformed(`The upstream answered with ${found} for ${wanted}.`);
}

/**
 * The token count that the client is told and charged, and gets again if it repeats the request.
 */
function countOf(
  { inputs }: EmbeddingsWish,
  batches: readonly Batch[],
  contextTokens: number,
): InputCount {
  let told = 0;
  for (const { promptTokens } of batches) told += promptTokens ?? Number.NaN;
  const isTold = isCredible({ ...noUsage, inputTokens: told }, contextTokens);
  if (isTold) return { tokens: told, isEstimate: false };
  let [characters, tokens] = [0, 0];
  for (const input of inputs) {
    if (typeof input === 'string') characters += countCharacters(input);
    else tokens += input.length;
  }
  return { tokens: tokens + Math.ceil(characters / charactersPerToken), isEstimate: true };
}

function inputBound({ inputs }: EmbeddingsWish): number {
  let [bytes, tokens] = [0, 0];
  for (const input of inputs) {
    if (typeof input === 'string') bytes += Buffer.byteLength(input);
    else tokens += input.length;
  }
  return tokensWithin(bytes) + tokens * tokensPerToken;
}
