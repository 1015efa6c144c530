/**
 * The end of an answer in a stream. Servers put it beside the last words, beside an empty text, or
 * say it twice; clients get the last words first, and then one chunk that only says how it ended.
 * What says nothing behind it is left out: Azure sends its filters' results when it has them.
 */
type Choice = Record<string, unknown>;

export interface Closing {
  /** What a chunk still says. */
  readonly said: readonly Choice[];
  /** Choices that end with it, and say nothing. */
  readonly closed: readonly Choice[];
}

/** Undefined when a chunk can pass as it came; `isFinished` is asked about choices before it. */
export function closingOf(
  choices: readonly Choice[],
  isFinished: (index: unknown) => boolean,
): Closing | undefined {
  const isNear = ({ finish_reason: reason, index }: Choice) =>
    typeof reason === 'string' || isFinished(index);
  if (!choices.some(isNear)) return undefined;
  const said: Choice[] = [];
  const closed: Choice[] = [];
  let isClean = true;
  for (const choice of choices) {
    const { finish_reason: reason, delta, index } = choice;
    const words = delta as Choice;
    const isAgain = isFinished(index);
    if (typeof reason !== 'string') {
      if (!isAgain || hasWords(words)) said.push(choice);
      else isClean = false;
      continue;
    }
    if (isAgain || Object.keys(words).length > 0) isClean = false;
    const saysMore = hasWords(words);
    if (saysMore) said.push({ ...choice, finish_reason: null });
    if (!isAgain) closed.push(saysMore ? bare(choice) : { ...choice, delta: {} });
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
