/** Embeddings of an OpenAI-style upstream. */
import { type Fields, isObject, itemsOf } from '../../../core/json.ts';
import { promptTokens } from '../../../core/usage.ts';
import type { UpstreamFailure } from '../../dialect.ts';
import { failureInside, malformed } from '../../failure.ts';
import type { Batch, EmbeddingsDialect } from '../../media/embeddings.ts';
import { spell } from '../../media/spell.ts';
import { readVector, type Vector } from '../../media/vectors.ts';
import { readAnswer } from '../../read-answer.ts';
import { readUsage } from '../usage.ts';

/** The most inputs that OpenAI takes in one call. */
const inputsMax = 2_048;
/** Written as decimals, more vectors of 3,072 numbers would exceed the longest answer read. */
const decimalInputsMax = 512;

export const openAiEmbeddings: EmbeddingsDialect = {
  takesTokens: true,
  batchMax: ({ encoding }) => (encoding === 'base64' ? inputsMax : decimalInputsMax),
  write({ inputs, isList, encoding, dimensions, user, more }, target) {
    const [only] = inputs;
    const { fields, dropped } = spell(
      { ...more, encoding_format: encoding, dimensions, user },
      target,
    );
    const body = { ...fields, model: target.upstreamModel, input: isList ? inputs : only };
    return {
      path: '/embeddings',
      body: JSON.stringify(body),
      // Which encoding an upstream answers with is not the client's concern.
      dropped: dropped.filter((name) => name !== 'encoding_format'),
    };
  },
  read: (text) => readAnswer(text, read),
};

function read(body: Fields): Batch | UpstreamFailure {
  const failure = failureInside(body);
  if (failure !== undefined) return failure;
  const data = itemsOf(body.data);
  const vectors: Vector[] = [];
  for (const [position, item] of data.entries()) {
    if (!isObject(item)) return malformed('The upstream answered with an item that is none.');
    const vector = readVector(item.embedding);
    const index = Number.isInteger(item.index) ? Number(item.index) : position;
    const isFree = index >= 0 && index < data.length && vectors[index] === undefined;
    if (vector === undefined || !isFree) {
      return malformed(`The upstream's item ${position} is no embedding in its place.`);
    }
    vectors[index] = vector;
  }
  return { vectors, promptTokens: promptTokensIn(body.usage) };
}

/** Embeddings have no output tokens: the total, which is all that Voyage tells, is the prompt. */
function promptTokensIn(raw: unknown): number | null {
  const isTotal = isObject(raw) && (raw.prompt_tokens ?? null) === null;
  const usage = readUsage(isTotal ? { prompt_tokens: raw.total_tokens } : raw);
  return usage ? promptTokens(usage) : null;
}
