/** Anthropic's marks for prompt caching, which clients of other dialects may set as well. */
import type { CacheControl, Dialogue } from '../../core/dialogue.ts';
import { isObject } from '../../core/json.ts';

/** The mark that a client set on a part, a message, a tool or the whole. */
export function cacheMark(holder: object): { cacheControl?: CacheControl } {
  const mark = 'cache_control' in holder ? holder.cache_control : undefined;
  return isObject(mark) ? { cacheControl: mark } : {};
}

/** Whether the client marked anything. */
export function hasCacheMarks(dialogue: Dialogue): boolean {
  const { turns, tools } = dialogue;
  const isInTurns = turns.some(({ parts }) => parts.some(isMarked));
  return isInTurns || isMarked(dialogue) || tools.some(isMarked);
}

function isMarked(holder: object): boolean {
  return 'cacheControl' in holder && holder.cacheControl !== undefined;
}
