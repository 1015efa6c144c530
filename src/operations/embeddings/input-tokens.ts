import { setImmediate as nextTurn } from 'node:timers/promises';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import type { EmbeddingsOptions } from '../../dialects/media.ts';
import { maxTokensIn } from '../../money/price/bounds.ts';

/** The most tokens that one of the client's tokens can become in another tokenizer. */
const tokensPerToken = 2;

/** Returns the most tokens that the inputs may have in any tokenizer. */
export function inputTokensMax({ inputs }: EmbeddingsOptions): number {
  let tokens = 0;
  for (const input of inputs) {
    // Rounded for each input, because the shortest text is a token, too.
    if (typeof input === 'string') tokens += maxTokensIn(Buffer.byteLength(input));
    else tokens += input.length * tokensPerToken;
  }
  return tokens;
}

/** Tokens decoded before the event loop runs again: about 1 ms of work. */
const tokensAtOnce = 16_384;

/**
 * The bytes of each token of cl100k_base, in base64. The token is the index. The file is written by
 * deploy/vocabulary.ts.
 */
let vocabulary: Promise<readonly string[]> | undefined;

/** Loads the vocabulary on first use, because most processes never need it. */
function loadVocabulary(): Promise<readonly string[]> {
  vocabulary ??= import('./cl100k_base.txt', { with: { type: 'text' } }).then(
    ({ default: lines }) => lines.split('\n'),
    (error) => {
      // The file couldn't be opened. The next request tries again.
      vocabulary = undefined;
      throw error;
    },
  );
  return vocabulary;
}

/**
 * Decodes inputs that the client sent as token IDs. OpenAI's libraries and LangChain tokenize with
 * cl100k_base for every model, but models with other tokenizers can't read these tokens. Throws 400
 * for a number that isn't a token.
 */
export async function decodeTokens({
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
    const chunks: Buffer[] = [];
    for (const [i, token] of input.entries()) {
      const bytes = base64Tokens[token];
      if (!bytes) throw unknownToken(token, isList ? `input[${index}][${i}]` : `input[${i}]`);
      chunks.push(Buffer.from(bytes, 'base64'));
      tokensSinceYield += 1;
      if (tokensSinceYield < tokensAtOnce) continue;
      tokensSinceYield = 0;
      await nextTurn();
    }
    texts.push(Buffer.concat(chunks).toString('utf8'));
  }
  return texts;
}

function unknownToken(token: number, path: string): GatewayError {
  return invalidRequest(`${path} is ${token}, which is not a token of cl100k_base.`, path);
}
