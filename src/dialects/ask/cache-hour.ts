import type { Source } from './body/edit-body.ts';

/** A character of `ttl`, `1h` or `12h` written as an escape, which only serves to hide it. */
const hidden = /\\u00(?:31|32|68|6c|74)/i;

/**
 * Whether a client wants a part of its prompt cached for an hour, or for OpenAI's twelve hours, in
 * any block. The text is searched at most once, and not at all where an hour costs no extra.
 */
export function cachesForHour({ text }: Source): () => boolean {
  let found: boolean | undefined;
  return () => {
    found ??= /"ttl"\s*:\s*"12?h"/.test(text) || hidden.test(text);
    return found;
  };
}
