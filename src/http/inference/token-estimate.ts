type CharacterKind = 'lower' | 'upper' | 'digit' | 'space' | 'mark' | 'ideograph' | 'letter';

function kindOf(code: number): CharacterKind {
  if (code >= 97 && code <= 122) return 'lower';
  if (code === 32 || (code >= 9 && code <= 13)) return 'space';
  if (code >= 65 && code <= 90) return 'upper';
  if (code >= 48 && code <= 57) return 'digit';
  if (code < 0xc0) return 'mark';
  // Chinese, Japanese, and Korean, and the surrogates of emoji.
  return code >= 0x2e80 ? 'ideograph' : code >= 0x2000 && code < 0x2c00 ? 'mark' : 'letter';
}

/** The average number of consecutive characters of one kind per token. */
const runLengths: Readonly<Record<CharacterKind, number>> = {
  lower: 9,
  upper: 3,
  digit: 3,
  space: 40,
  mark: 8,
  ideograph: 1.2,
  letter: 4.5,
};

/**
 * Estimates the number of tokens in a text. Every model has its own tokenizer, and its tables take
 * half a second to load. This estimate reads each character once and is close enough.
 */
export function estimateTokens(text: string): number {
  let tokens = 0;
  let kind: CharacterKind | undefined;
  let length = 0;
  for (let index = 0; index < text.length; index += 1) {
    const next = kindOf(text.charCodeAt(index));
    // A capital letter and the lowercase letters after it are one word.
    if (next === kind || (next === 'lower' && kind === 'upper' && length === 1)) {
      kind = next;
      length += 1;
      continue;
    }
    tokens += tokensOf(kind, length);
    kind = next;
    length = 1;
  }
  return Math.ceil(tokens + tokensOf(kind, length));
}

function tokensOf(kind: CharacterKind | undefined, length: number): number {
  if (kind === undefined) return 0;
  // Tokenizers join a single space to the next word.
  if (kind === 'space' && length === 1) return 0.1;
  return kind === 'ideograph' ? length / runLengths[kind] : Math.ceil(length / runLengths[kind]);
}
