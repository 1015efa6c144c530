/** Characters as people count them: one for an emoji. */
export function countCharacters(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code >= 0xdc00 && code <= 0xdfff && at > 0 && isHighSurrogate(text, at - 1)) count -= 1;
  }
  return count;
}

function isHighSurrogate(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 0xd800 && code <= 0xdbff;
}

/**
 * `1 credit`, `2 credits`: a number and what it counts, for sentences of errors and notes. The
 * verb may come along: `counted(loss, 'credit was', 'credits were')`.
 */
export function pluralize(count: number, singular: string, plural = `${singular}s`): string {
  return `${count} ${count === 1 ? singular : plural}`;
}

/** Longer words than this are nobody's model or finish reason. */
const loggedLengthMax = 200;

/**
 * Words of a client or an upstream as both engines can keep them. Postgres refuses zero bytes and
 * halves of characters, and one row that it refuses would hold up all others.
 */
export function logText(text: string): string {
  return text.slice(0, loggedLengthMax).toWellFormed().replaceAll('\0', '\ufffd');
}

/** The known word closest to a mistyped one, when it is close enough to be worth suggesting. */
export function nearest(
  word: string,
  known: Iterable<string>,
  distanceMax = Math.max(2, Math.floor(word.length / 3)),
): string | undefined {
  let best: string | undefined;
  let bestDistance = distanceMax + 1;
  for (const candidate of known) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue;
    const distance = editDistance(word, candidate);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** The end of a complaint about an unknown word; '' when no known one is close. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const close = nearest(word, known);
  return close ? `; did you mean "${close}"?` : '';
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(swap, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}
