/**
 * POST /v1/embeddings: each word of a text changes a few hashed dimensions, so identical texts have
 * identical vectors, and texts that share words have similar vectors.
 */
import { invalidRequest } from '../core/errors.ts';
import type { JsonObject } from '../core/json.ts';
import { choiceField, integerField, jsonReply, type Reply, readJsonBody } from './http.ts';
import { countTokens } from './tokens.ts';

const dimensionsDefault = 256;
/** The dimensions of OpenAI's largest embedding model. */
const dimensionsMax = 3_072;
const inputsMax = 2_048;
/** OpenAI's limits. They also bound the time of one request. */
const tokensPerInputMax = 8_192;
const tokensMax = 300_000;

/** Several dimensions per word, so that two words rarely have the same hashes. */
const dimensionsPerWord = 4;

/** A string, or its tokens. */
type Input = string | readonly number[];

export async function answerEmbeddings(request: Request): Promise<Reply> {
  const body = await readJsonBody(request);
  const inputs = readInputs(body);
  const dimensions = integerField(body, 'dimensions', 1, dimensionsMax) ?? dimensionsDefault;
  const encoding = choiceField(body, 'encoding_format', ['float', 'base64']) ?? 'float';
  const tokens = countInputs(inputs);
  const data = inputs.map((input, index) => {
    const vector = embed(input, dimensions);
    // OpenAI's base64 is little-endian, which is also the byte order of this runtime's machines.
    const base64 = () => Buffer.from(vector.buffer).toString('base64');
    const embedding = encoding === 'float' ? Array.from(vector) : base64();
    return { object: 'embedding', index, embedding };
  });
  return jsonReply({
    object: 'list',
    data,
    model: body.model ?? 'demo-embed',
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  });
}

function readInputs(body: JsonObject): Input[] {
  const { input } = body;
  const inputs = Array.isArray(input) && !isTokens(input) ? input : [input];
  if (inputs.length === 0 || inputs.length > inputsMax) {
    throw invalidRequest(`'input' must have 1 to ${inputsMax} strings.`, 'input');
  }
  return inputs.map((item, index) => {
    if ((typeof item === 'string' || isTokens(item)) && item.length > 0) return item;
    throw invalidRequest(
      "'input' must be a string, or an array of strings or token arrays, none of them empty.",
      inputs.length > 1 ? `input[${index}]` : 'input',
    );
  });
}

function countInputs(inputs: readonly Input[]): number {
  const counts = inputs.map((input) =>
    typeof input === 'string' ? countTokens(input) : input.length,
  );
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total <= tokensMax && counts.every((count) => count <= tokensPerInputMax)) return total;
  throw invalidRequest(
    `'input' may have at most ${tokensPerInputMax} tokens per string and ${tokensMax} in total.`,
    'input',
  );
}

function isTokens(value: unknown): value is number[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((token) => Number.isInteger(token) && token >= 0)
  );
}

function embed(input: Input, dimensions: number): Float32Array<ArrayBuffer> {
  const vector = new Float64Array(dimensions);
  for (const word of eachWord(input)) addWord(vector, word);
  // If a text has no words, or if its words cancel each other out, treat the text as one word.
  if (vector.every((value) => value === 0)) {
    vector[Bun.hash.xxHash32(String(input)) % dimensions] = 1;
  }
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return Float32Array.from(vector, (value) => value / length);
}

/** Yields words. Each ideograph is a word, because Chinese is written without spaces. */
function* eachWord(input: Input): Generator<string> {
  if (typeof input !== 'string') {
    for (const token of input) yield String(token);
    return;
  }
  for (const [word] of input.matchAll(/\p{Ideographic}|[[\p{L}\p{N}]--\p{Ideographic}]+/gv)) {
    yield word.toLowerCase();
  }
}

function addWord(vector: Float64Array, word: string): void {
  for (let seed = 0; seed < dimensionsPerWord; seed += 1) {
    const hash = Bun.hash.xxHash32(word, seed);
    const at = (hash >>> 1) % vector.length;
    vector[at] = (vector[at] ?? 0) + (hash & 1 ? 1 : -1);
  }
}
