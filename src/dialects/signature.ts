/**
 * Providers sign their thoughts and refuse those of others, and a conversation may wander from one
 * provider to the next. So a signature carries the mark of its maker on its way through a client
 * that knows nothing of it. Anthropic's go unmarked: Anthropic's own clients send them unchanged.
 */
const marks = { anthropic: '', gemini: 'gemini:', responses: 'responses:' } as const;
export type SignatureMaker = keyof typeof marks;

export function markSignature(maker: SignatureMaker, signature: string): string {
  return marks[maker] + signature;
}

/** The signature as its maker wrote it; undefined when there is none or it is somebody else's. */
export function ownSignature(
  maker: SignatureMaker,
  marked: string | undefined,
): string | undefined {
  if (marked === undefined || marked === '') return undefined;
  const found = Object.values(marks).find((mark) => mark !== '' && marked.startsWith(mark)) ?? '';
  return found === marks[maker] ? marked.slice(found.length) : undefined;
}
