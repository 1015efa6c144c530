import type { Source } from './edit-body.ts';

/** A character of `ttl` or `1h` as an escape, which nobody needs except to hide them. */
const hidden = /\\u00(?:31|68|6c|74)/i;

/**
 * Whether a client wants some of its prompt kept for an hour, in whichever block it says so. Looked
 * for when somebody asks, and once: where an hour costs no more, nobody does.
 */
export function cachesForHour({ text }: Source): () => boolean {
  let found: boolean | undefined;
  return () => {
    found ??= /"ttl"\s*:\s*"1h"/.test(text) || hidden.test(text);
    return found;
  };
}
