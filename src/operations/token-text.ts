import { setImmediate as nextTurn } from 'node:timers/promises';
import { type GatewayError, invalidRequest } from '../core/errors.ts';
import type { EmbeddingsWish } from '../dialects/media/embeddings.ts';

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
    (thrown) => {
      // The file could not be opened this time: the next request may try again.
      vocabulary = undefined;
      throw thrown;
    },
  );
  return vocabulary;
}

/**
 * The texts of inputs that clients cut into tokens themselves. OpenAI's libraries and LangChain do
 * so with cl100k_base, whatever the model; to any other model those numbers would be noise.
 */
export async function toTexts({
  inputs,
  isList,
}: Pick<EmbeddingsWish, 'inputs' | 'isList'>): Promise<readonly string[]> {
  const texts: string[] = [];
  let sinceTurn = 0;
  for (const [index, input] of inputs.entries()) {
    if (typeof input === 'string') {
      texts.push(input);
      continue;
    }
    const known = await loadVocabulary();
    const pieces: Buffer[] = [];
    for (const [at, token] of input.entries()) {
      const bytes = known[token];
      if (!bytes) throw unknownToken(token, isList ? `input[${index}][${at}]` : `input[${at}]`);
      pieces.push(Buffer.from(bytes, 'base64'));
      sinceTurn += 1;
      if (sinceTurn < tokensAtOnce) continue;
      sinceTurn = 0;
      await nextTurn();
    }
    texts.push(Buffer.concat(pieces).toString('utf8'));
  }
  return texts;
}

function unknownToken(token: number, path: string): GatewayError {
  return invalidRequest(`${path} is ${token}, which is no token of cl100k_base.`, path);
}
