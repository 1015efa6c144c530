/** Counts characters as code points, so that an emoji counts as one. */
export function countCharacters(text: string): number {
  let count = text.length;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code >= 0xdc00 && code <= 0xdfff && index > 0 && isHighSurrogate(text, index - 1))
      count -= 1;
  }
  return count;
}

function isHighSurrogate(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 0xd800 && code <= 0xdbff;
}

/** Returns the length of this many bytes as base64. */
export function base64Length(bytes: number): number {
  return Math.ceil(bytes / 3) * 4;
}

/**
 * Returns a number with its noun: `1 credit`, `2 credits`. The words can include a verb:
 * `pluralize(loss, 'credit was', 'credits were')`.
 */
export function pluralize(count: number, singular: string, plural = `${singular}s`): string {
  return `${count} ${count === 1 ? singular : plural}`;
}

/** No real model name or finish reason is longer. */
const loggedLengthMax = 200;

/**
 * Makes text from clients and providers storable. Postgres rejects NUL characters and lone
 * surrogates, and one rejected row would block all other rows in its batch.
 */
export function logText(text: string): string {
  return text.slice(0, loggedLengthMax).toWellFormed().replaceAll('\0', '\ufffd');
}

/** A word with more differences is a different word, and comparing more would take too long. */
const differencesMax = 4;

/** Returns the known word closest to a mistyped one, if it is close enough to suggest. */
export function nearest(
  word: string,
  known: Iterable<string>,
  distanceMax = Math.max(2, Math.floor(word.length / 3)),
): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.min(distanceMax, differencesMax) + 1;
  for (const candidate of known) {
    const distance = editDistance(word, candidate, bestDistance);
    if (distance >= bestDistance) continue;
    best = candidate;
    bestDistance = distance;
  }
  return best;
}

/** Returns the end of an error about an unknown word, or '' if no known word is close. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const close = nearest(word, known);
  return close ? `; did you mean "${close}"?` : '';
}

/** Returns the number of differences, or `limit` as soon as there must be that many. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let previous = new Uint16Array(b.length + 1);
  let row = new Uint16Array(b.length + 1);
  for (let j = 0; j <= b.length; j++) previous[j] = j;
  for (let i = 1; i <= a.length; i++) {
    // Cells farther from the diagonal have at least `limit` differences.
    const first = Math.max(1, i - limit);
    const last = Math.min(b.length, i + limit);
    let left = first === 1 ? i : limit;
    let rowMin = left;
    row.fill(limit);
    row[first - 1] = left;
    for (let j = first; j <= last; j++) {
      const substitution = (previous[j - 1] ?? limit) + (a[i - 1] === b[j - 1] ? 0 : 1);
      left = Math.min(substitution, (previous[j] ?? limit) + 1, left + 1);
      row[j] = left;
      rowMin = Math.min(rowMin, left);
    }
    if (rowMin >= limit) return limit;
    [previous, row] = [row, previous];
  }
  return previous[b.length] ?? limit;
}
