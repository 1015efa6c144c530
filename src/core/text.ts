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

/** Returns the known word closest to a mistyped one, if it is close enough to suggest. */
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

/** Returns the end of an error about an unknown word, or '' if no known word is close. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const close = nearest(word, known);
  return close ? `; did you mean "${close}"?` : '';
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(substitution, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}
