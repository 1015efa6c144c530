/**
 * The end of a streamed choice. Servers put the finish reason beside the last words, beside an
 * empty text, send it twice, or in every chunk; clients get the last words first, then one chunk
 * with nothing but the last reason. Later chunks that say nothing are left out: Azure sends results
 * of its filters late.
 */
import type { ChunkMender } from './chunk.ts';

type Choice = Record<string, unknown>;

export interface Apart {
  /** What the chunk still says, without finish reasons. */
  readonly said: readonly Choice[];
  /** Choices that end with this chunk and say nothing more: their ends are told at once. */
  readonly closed: readonly Choice[];
  /** Ends of choices that also said something in this chunk: held back, because more may follow. */
  readonly held: readonly Choice[];
}

/** The choices before this chunk; `untold` has the ends that were held back. */
interface Before {
  readonly open: ReadonlySet<unknown>;
  readonly finished: ReadonlySet<unknown>;
  readonly untold: ReadonlyMap<unknown, unknown>;
}

/** The most ends held back: as many choices as a client may ask for, since each keeps a chunk. */
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
    // The first chunk of a choice tells the role, even where it says nothing else.
    const saysMore = hasWords(words) || !(isAfterEnd || open.has(index));
    if (saysMore) said.push({ ...choice, finish_reason: null });
    if (isAfterEnd && !untold.has(index)) continue;
    const canWait = untold.has(index) || untold.size + held.length < untoldMax;
    if (!saysMore && !mender.isWaiting(index)) closed.push({ ...choice, delta: {} });
    else (canWait ? held : closed).push(bare(choice));
  }
  return isClean ? undefined : { said, closed, held };
}

/** The end of a choice alone: the delta and its log probabilities have gone out before. */
function bare(choice: Choice): Choice {
  return { ...choice, delta: {}, ...(choice.logprobs === undefined ? {} : { logprobs: null }) };
}

/** Whether a delta tells a client anything but the role, which servers may repeat. */
function hasWords(delta: Choice): boolean {
  return Object.entries(delta).some(([name, value]) => {
    if (name === 'role' || value === undefined || value === null || value === '') return false;
    return !Array.isArray(value) || value.length > 0;
  });
}
