/**
 * The end of a streamed choice. Servers put the finish reason beside the last words, beside an
 * empty text, or send it twice; clients get the last words first, then one chunk with nothing but
 * the reason. What says nothing after it is left out: Azure sends results of its filters late.
 */
type Choice = Record<string, unknown>;

export interface Apart {
  /** What a chunk still says. */
  readonly said: readonly Choice[];
  /** Choices that end with it, and say nothing. */
  readonly closed: readonly Choice[];
}

/** Undefined when a chunk can pass as it came; `open` and `finished` are the choices before it. */
export function finishApart(
  choices: readonly Choice[],
  open: ReadonlySet<unknown>,
  finished: ReadonlySet<unknown>,
): Apart | undefined {
  const mayClose = ({ finish_reason: reason, index }: Choice) =>
    typeof reason === 'string' || finished.has(index);
  if (!choices.some(mayClose)) return undefined;
  const said: Choice[] = [];
  const closed: Choice[] = [];
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
    if (!isAfterEnd) closed.push(saysMore ? bare(choice) : { ...choice, delta: {} });
  }
  return isClean ? undefined : { said, closed };
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
