/** The demo's tokens: four UTF-8 bytes each, rounded up, so that anybody can recompute a bill. */

const bytesPerToken = 4;

export function countTokens(text: string): number {
  return tokensOfBytes(Buffer.byteLength(text));
}

export function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}

/** Hands out text until a number of tokens is used up. */
export class TokenBudget {
  used = 0;
  /** Whether some text did not fit. */
  exceeded = false;
  readonly #tokensMax: number;

  constructor(tokensMax: number) {
    this.#tokensMax = tokensMax;
  }

  /** Returns as much of the text as fits, and counts that as used. */
  take(text: string): string {
    const bytesLeft = (this.#tokensMax - this.used) * bytesPerToken;
    const fitting = Buffer.byteLength(text) <= bytesLeft ? text : cutToBytes(text, bytesLeft);
    if (fitting !== text) this.exceeded = true;
    this.used += countTokens(fitting);
    return fitting;
  }
}

/** Cuts between characters, never inside one. */
function cutToBytes(text: string, bytesMax: number): string {
  const bytes = Buffer.from(text);
  let end = bytesMax;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end);
}

/** The start of a text, for quoting it back. */
export function excerpt(text: string, charactersMax = 200): string {
  // Two UTF-16 units hold any character, so this slice is enough and stays small.
  const characters = Array.from(text.slice(0, charactersMax * 2 + 2));
  if (characters.length <= charactersMax) return characters.join('');
  return `${characters.slice(0, charactersMax).join('')}…`;
}
