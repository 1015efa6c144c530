import type { Source } from './edit-body.ts';

/** A 1 or one of the letters h, l, t by its number: nobody needs that except to hide the words. */
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
