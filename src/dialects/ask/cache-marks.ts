/** Anthropic's marks for prompt caching, which clients of other dialects may set as well. */
import type { CacheControl, Dialogue, Turn } from '../../core/dialogue.ts';
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

/** Anthropic refuses a fifth. */
const marksMax = 4;

/**
 * A dialogue with the last of its marks, where it has too many: each covers all that stands before
 * it. Libraries put the mark of one message on every result in it.
 */
export function withLastMarks(dialogue: Dialogue): Dialogue {
  if (!hasCacheMarks(dialogue)) return dialogue;
  const { turns, tools } = dialogue;
  const marked = [dialogue, ...tools, ...turns.flatMap(({ parts }): object[] => [...parts])];
  let surplus = marked.filter(isMarked).length - marksMax;
  if (surplus <= 0) return dialogue;
  const keep = <Part extends object>(part: Part): Part => {
    if (surplus === 0 || !isMarked(part)) return part;
    surplus -= 1;
    return { ...part, cacheControl: undefined };
  };
  // In the order of the prompt, which begins with the tools.
  const kept = tools.map(keep);
  const inTurn = (turn: Turn) => ({ ...turn, parts: turn.parts.map(keep<object>) }) as Turn;
  return { ...dialogue, tools: kept, turns: turns.map(inTurn) };
}
