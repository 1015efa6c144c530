/**
 * Marks for prompt caching: Anthropic's `cache_control`, which clients of other dialects may set as
 * well, and OpenAI's `prompt_cache_breakpoint` on a part.
 */
import type { Cacheable, CacheControl, Dialogue, Turn } from '../../core/dialogue.ts';
import { fieldsOf, isObject } from '../../core/json.ts';

const breakpoint = 'prompt_cache_breakpoint';

/** The mark on a part, a message, a tool or the whole request, in Anthropic's or OpenAI's form. */
export function cacheMark(holder: object): { cacheControl?: CacheControl } {
  const { cache_control: mark, [breakpoint]: point } = fieldsOf(holder);
  if (isObject(point)) return { cacheControl: { ...fieldsOf(mark), [breakpoint]: point } };
  return isObject(mark) ? { cacheControl: mark } : {};
}

/** A mark in Anthropic's form; OpenAI's becomes Anthropic's shorter one, which costs as much. */
export function cacheField({ cacheControl: mark }: Cacheable): object {
  if (mark === undefined) return {};
  const { [breakpoint]: point, ...own } = mark;
  return { cache_control: point === undefined ? mark : { type: 'ephemeral', ...own } };
}

/** A mark in OpenAI's form, if the client set it so. */
export function breakpointField({ cacheControl: mark }: Cacheable): object {
  return mark && breakpoint in mark ? { [breakpoint]: mark[breakpoint] } : {};
}

/** The names of the fields by which the client set marks. */
export function cacheMarkNames(dialogue: Dialogue): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { [breakpoint]: point, ...own } of marksIn(dialogue)) {
    if (point !== undefined) names.add(breakpoint);
    if (point === undefined || Object.keys(own).length > 0) names.add('cache_control');
  }
  return names;
}

function* marksIn(dialogue: Dialogue): Iterable<CacheControl> {
  if (dialogue.cacheControl) yield dialogue.cacheControl;
  for (const { cacheControl: mark } of dialogue.tools) if (mark) yield mark;
  for (const { parts } of dialogue.turns) {
    for (const part of parts)
      if ('cacheControl' in part && part.cacheControl) yield part.cacheControl;
  }
}

/** Anthropic refuses a fifth mark. */
const marksMax = 4;

/**
 * Keeps only the last marks of a dialogue with too many, since each covers all that stands before
 * it. Libraries copy the mark of a message to every result in it.
 */
export function withLastMarks(dialogue: Dialogue): Dialogue {
  let surplus = [...marksIn(dialogue)].length - marksMax;
  if (surplus <= 0) return dialogue;
  const { turns, tools } = dialogue;
  const keep = <Part extends object>(part: Part): Part => {
    if (surplus === 0 || !('cacheControl' in part && part.cacheControl)) return part;
    surplus -= 1;
    return { ...part, cacheControl: undefined };
  };
  // In the order of the prompt, which begins with the tools.
  const kept = tools.map(keep);
  const inTurn = (turn: Turn) => ({ ...turn, parts: turn.parts.map(keep<object>) }) as Turn;
  return { ...dialogue, tools: kept, turns: turns.map(inTurn) };
}
