import type { Source } from './edit-body.ts';

/**
 * Whether a client wants some of its prompt kept for an hour, in whichever block it says so. Looked
 * for when somebody asks, and once: where an hour costs no more, nobody does.
 */
export function cachesForHour({ text }: Source): () => boolean {
  let found: boolean | undefined;
  return () => {
    found ??= /"ttl"\s*:\s*"1h"/.test(text);
    return found;
  };
}
