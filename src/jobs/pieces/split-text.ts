import type { TextLimit } from '../../core/media/audio.ts';

/**
 * Cuts a text into pieces that one call takes each, where a reader would breathe: after a paragraph
 * or sentence, else after a line or a clause, else between words, and only then inside one. Nothing
 * but the white space around the cuts is lost. The first pieces have as many characters as `spoken`
 * says: they are done already, perhaps by a version that cut elsewhere.
 */
export function splitText(
  text: string,
  limit: TextLimit,
  doneLengths: readonly number[] = [],
): string[] {
  const pieces: string[] = [];
  for (let at = afterSpace(text, 0); at < text.length; ) {
    const done = doneLengths[pieces.length];
    const cut = done ? indexAfter(text, at, done) : nextCut(text, at, limit);
    pieces.push(text.slice(at, cut).trimEnd());
    at = afterSpace(text, cut);
  }
  return pieces;
}

function nextCut(text: string, at: number, limit: TextLimit): number {
  const end = furthestEnd(text, at, limit);
  // Whether a full stop ends a sentence shows in the character behind it.
  return end === text.length ? end : at + bestCut(text.slice(at, end + 1), end - at);
}

/** The index behind so many characters. */
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
/** In front of a space “ and « close, too, as in German and Danish. */
const closed = '["\'\\p{Pe}\\p{Pf}\\p{Pi}]*(?=\\s)';
/** Of any script: Hindi has a danda, Urdu and Amharic have full stops of their own. */
const sentenceEnd = '[\\p{Sentence_Terminal}…]';
const cuts = [
  // A full stop inside «3.5» ends nothing; CJK marks need no space behind them. A run of marks is
  // tried from its first only: a text of nothing but full stops must not take quadratic time.
  new RegExp(`\\n\\s*\\n|(?<!${sentenceEnd})${sentenceEnd}+${closed}|[。！？｡]+${closers}`, 'gu'),
  // After a heading or a verse. Not before sentences: e-mails and books break lines inside of them.
  /\n/gu,
  new RegExp(`[\\p{Terminal_Punctuation}—–]${closed}|[，、；：]${closers}`, 'gu'),
  /(?<=\S)(?=\s)/gu,
];

/** The last good place to cut within `room`. */
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

/** The index behind the last character that still fits; always one further at least. */
function furthestEnd(text: string, at: number, { unit, max }: TextLimit): number {
  // In UTF-16 units: however a provider counts characters, it does not find more.
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

/** A longer cluster than this is no character of any language. */
const clusterLength = 64;

/** Cuts inside a word without end, but not a letter from its accents or an emoji in two. */
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
