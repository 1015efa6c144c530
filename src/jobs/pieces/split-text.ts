import type { TextLimit } from '../../core/media/audio.ts';

/**
 * Splits a text into pieces within the limit of one call. It cuts after a paragraph or sentence if
 * possible, otherwise after a line, then after a clause, then between words, then inside a word.
 * Drops only the white space at the cuts. `doneLengths` are the character counts of the leading
 * pieces that are already finished, possibly by a version that split differently.
 */
export function splitText(
  text: string,
  limit: TextLimit,
  doneLengths: readonly number[] = [],
): string[] {
  const pieces: string[] = [];
  for (let index = afterSpace(text, 0); index < text.length; ) {
    const done = doneLengths[pieces.length];
    const cut = done ? indexAfter(text, index, done) : nextCut(text, index, limit);
    pieces.push(text.slice(index, cut).trimEnd());
    index = afterSpace(text, cut);
  }
  return pieces;
}

function nextCut(text: string, at: number, limit: TextLimit): number {
  const end = furthestEnd(text, at, limit);
  // Include one more character: it decides whether a period ends a sentence.
  return end === text.length ? end : at + bestCut(text.slice(at, end + 1), end - at);
}

/** Returns the index after this many characters. */
function indexAfter(text: string, at: number, characters: number): number {
  let end = at;
  for (let left = characters; left > 0 && end < text.length; left -= 1) {
    end += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
  }
  return end;
}

function afterSpace(text: string, at: number): number {
  nextWord.lastIndex = at;
  return nextWord.exec(text)?.index ?? text.length;
}

const nextWord = /\S/gu;

const closers = '["\'\\p{Pe}\\p{Pf}]*';
/** Before a space, “ and « are also closing quotes, as in German and Danish. */
const closed = '["\'\\p{Pe}\\p{Pf}\\p{Pi}]*(?=\\s)';
/** Covers all scripts: Hindi, Urdu, and Amharic have their own punctuation marks. */
const sentenceEnd = '[\\p{Sentence_Terminal}…]';
const cuts = [
  // Paragraphs and sentences. The period in 3.5 doesn't end a sentence. CJK marks need no space
  // after them. A run of marks matches only from its start. Otherwise, "....." would take quadratic
  // time.
  new RegExp(`\\n\\s*\\n|(?<!${sentenceEnd})${sentenceEnd}+${closed}|[。！？｡]+${closers}`, 'gu'),
  // Lines, such as headings and verses. After sentences, because emails break lines inside them.
  /\n/gu,
  new RegExp(`[\\p{Terminal_Punctuation}—–]${closed}|[，、；：]${closers}`, 'gu'),
  /(?<=\S)(?=\s)/gu,
];

/** Returns the last good position for a cut within `lengthMax`. */
function bestCut(window: string, lengthMax: number): number {
  for (const rule of cuts) {
    let last = 0;
    for (const match of window.matchAll(rule)) {
      const cut = match.index + match[0].length;
      if (cut > lengthMax) break;
      last = cut;
    }
    if (last > 0) return last;
  }
  return lastFullCharacter(window, lengthMax);
}

/** Returns the index after the last character that fits, but at least one character. */
function furthestEnd(text: string, at: number, { unit, max }: TextLimit): number {
  // No provider counts more characters than a text has UTF-16 units.
  if (unit === 'characters') return Math.min(text.length, at + Math.max(2, max));
  let bytes = 0;
  let end = at;
  while (end < text.length) {
    const point = text.codePointAt(end) ?? 0;
    bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (bytes > max && end > at) break;
    end += point > 0xffff ? 2 : 1;
  }
  return end;
}

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

/** No grapheme cluster of a real language is longer than this. */
const clusterLength = 64;

/** Cuts inside a very long word, but not inside a grapheme such as an emoji. */
function lastFullCharacter(window: string, lengthMax: number): number {
  const from = Math.max(0, lengthMax - clusterLength);
  let last = from;
  for (const { index } of graphemes.segment(window.slice(from))) {
    last = from + index;
  }
  if (last > from) return last;
  const isInsidePair = lengthMax > 1 && /[\uD800-\uDBFF]$/.test(window.slice(0, lengthMax));
  return isInsidePair ? lengthMax - 1 : lengthMax;
}
