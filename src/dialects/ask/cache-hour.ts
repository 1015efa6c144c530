import type { Source } from './body/edit-body.ts';

/** A character of `ttl`, `1h` or `12h` as an escape, which nobody needs except to hide them. */
const hidden = /\\u00(?:31|32|68|6c|74)/i;

/**
 * Whether a client wants some of its prompt kept for an hour, or for OpenAI's twelve, in whichever
 * block it says so. Looked for when somebody asks, and once: where hours cost no more, nobody does.
 */
export function cachesForHour({ text }: Source): () => boolean {
  let found: boolean | undefined;
  return () => {
    found ??= /"ttl"\s*:\s*"12?h"/.test(text) || hidden.test(text);
    return found;
  };
}
