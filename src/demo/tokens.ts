/** The demo's tokens: 4 UTF-8 bytes each, rounded up, so that anyone can recompute a charge. */
const bytesPerToken = 4;

export function countTokens(text: string): number {
  return tokensOfBytes(Buffer.byteLength(text));
}

export function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}

/** Truncates strings to a total number of tokens. */
export class TokenBudget {
  used = 0;
  /** Whether a text was truncated. */
  exceeded = false;
  readonly #tokensMax: number;

  constructor(tokensMax: number) {
    this.#tokensMax = tokensMax;
  }

  /** Returns as much of the text as fits, and counts its tokens. */
  take(text: string): string {
    const bytesLeft = (this.#tokensMax - this.used) * bytesPerToken;
    const fitting = Buffer.byteLength(text) <= bytesLeft ? text : cutToBytes(text, bytesLeft);
    if (fitting !== text) this.exceeded = true;
    this.used += countTokens(fitting);
    return fitting;
  }
}

/** Truncates between characters, not inside one. */
function cutToBytes(text: string, bytesMax: number): string {
  const bytes = Buffer.from(text);
  let end = bytesMax;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end);
}

/** Returns the start of a text, for quoting it. */
export function excerpt(text: string, charactersMax = 200): string {
  // A character has at most 2 UTF-16 units, so this slice is long enough.
  const characters = Array.from(text.slice(0, charactersMax * 2 + 2));
  if (characters.length <= charactersMax) return characters.join('');
  return `${characters.slice(0, charactersMax).join('')}…`;
}
