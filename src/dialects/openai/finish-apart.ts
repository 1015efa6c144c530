/**
 * The end of a streamed choice. Servers put the finish reason beside the last words, beside an
 * empty text, send it twice, or in every chunk; clients get the last words first, then one chunk
 * with nothing but the last reason. What says nothing after it is left out: Azure sends results of
 * its filters late.
 */
import type { ChunkMender } from './chunk.ts';

type Choice = Record<string, unknown>;

export interface Apart {
  /** What a chunk still says. */
  readonly said: readonly Choice[];
  /** Choices that end with it, and say nothing. */
  readonly closed: readonly Choice[];
  /** The same of those that said something beside their end: they may go on. */
  readonly held: readonly Choice[];
}

/** The choices before a chunk: of those that finished, some ends are not told yet. */
interface Before {
  readonly open: ReadonlySet<unknown>;
  readonly finished: ReadonlySet<unknown>;
  readonly untold: ReadonlyMap<unknown, unknown>;
}

/** As many choices as a client may ask for: each keeps a chunk, which may be as long as any. */
const untoldMax = 16;

/** Undefined when a chunk can pass as it came. */
export function finishApart(
  choices: readonly Choice[],
  { open, finished, untold }: Before,
  mender: Pick<ChunkMender, 'isWaiting'>,
): Apart | undefined {
  const mayClose = ({ finish_reason: reason, index }: Choice) =>
    typeof reason === 'string' || finished.has(index);
  if (!choices.some(mayClose)) return undefined;
  const said: Choice[] = [];
  const closed: Choice[] = [];
  const held: Choice[] = [];
  let isClean = true;
  for (const choice of choices) {
    const { finish_reason: reason, delta, index } = choice;
    const words = delta as Choice;
    const isAfterEnd = finished.has(index);
    if (typeof reason !== 'string') {
      if (!isAfterEnd || hasWords(words)) said.push(choice);
      else isClean = false;
      continue;
    }
    if (isAfterEnd || Object.keys(words).length > 0) isClean = false;
    // Who speaks is said at the beginning, also where nothing else is.
    const saysMore = hasWords(words) || !(isAfterEnd || open.has(index));
    if (saysMore) said.push({ ...choice, finish_reason: null });
    if (isAfterEnd && !untold.has(index)) continue;
    const canWait = untold.has(index) || untold.size + held.length < untoldMax;
    if (!saysMore && !mender.isWaiting(index)) closed.push({ ...choice, delta: {} });
    else (canWait ? held : closed).push(bare(choice));
  }
  return isClean ? undefined : { said, closed, held };
}

/** What belongs to the words has gone out with them. */
function bare(choice: Choice): Choice {
  return { ...choice, delta: {}, ...(choice.logprobs === undefined ? {} : { logprobs: null }) };
}

/** Whether a delta tells a client anything; every server repeats the role. */
function hasWords(delta: Choice): boolean {
  return Object.entries(delta).some(([name, value]) => {
    if (name === 'role' || value === undefined || value === null || value === '') return false;
    return !Array.isArray(value) || value.length > 0;
  });
}
