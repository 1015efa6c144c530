import type { Citation } from '../core/answer.ts';
import { citationsMax } from '../core/bounds.ts';

/** What an answer needs to know of a page to cite it. */
export interface FoundPage {
  readonly url: string;
  readonly title: string;
}

/** Code is shown, not said: `list[1]` is no citation. */
const codePattern = /```[\s\S]*?(?:```|$)|`[^`\n]*`/g;
/**
 * `[title](address)`, with words after the address if a space sets them apart. Both may have
 * brackets in pairs, as Wikipedia's addresses do. No character matches in two ways: else a text
 * full of unfinished links would be tried over and over, for seconds.
 */
const address = 'https?://(?:[^\\s()<>]|\\([^\\s()<>]*\\)){1,2000}';
const afterAddress = '[ \\t](?:[^()\\n]|\\([^()\\n]*\\)){0,500}';
const linkPattern = new RegExp(
  `\\[([^[\\]\\n]{0,500})\\]\\(<?(${address})>?(?:${afterAddress})?\\)`,
  'g',
);
const addressPattern = new RegExp(address, 'g');
/** After a bare address these characters belong to the sentence around it. */
const sentenceMarks = '.,;:!?\'"*_]';
/** `[1]`, `[1, 2]`, `【1】` and `【1†source】`; not the text of a link. */
const marker = /\[(\d{1,3}(?:\s?[,;]\s?\d{1,3}){0,50})\](?!\()|【(\d{1,3})(?:†[^】\n]{0,100})?】/g;

/**
 * Where an answer cites the results of searches. `pages` are those that the model was shown, in the
 * order of their numbers. Other numbers and addresses are ignored: what a model invents must not
 * look like a result of ours. Ranges count characters (code points).
 */
export function citationsIn(text: string, pages: readonly FoundPage[]): Citation[] {
  if (pages.length === 0) return [];
  const prose = text.replace(codePattern, (span) => ' '.repeat(span.length));
  const byAddress = new Map(pages.map((page) => [addressKey(page.url), page]));
  const found: { at: number; end: number; page: FoundPage }[] = [];
  const add = (at: number, matched: string, page: FoundPage | undefined) => {
    if (page) found.push({ at, end: at + matched.length, page });
  };
  for (const { index, 0: matched, 2: url = '' } of prose.matchAll(linkPattern)) {
    add(index, matched, byAddress.get(addressKey(url)));
  }
  const unlinked = prose.replace(linkPattern, (span) => ' '.repeat(span.length));
  for (const { index, 0: matched } of unlinked.matchAll(addressPattern)) {
    const url = withoutMarks(matched);
    add(index, url, byAddress.get(addressKey(url)));
  }
  for (const { index, 0: matched, 1: several, 2: one = '' } of prose.matchAll(marker)) {
    const numbers = (several ?? one).split(/[,;]/).map(Number);
    for (const number of new Set(numbers)) add(index, matched, pages[number - 1]);
  }
  const inOrder = found.sort((a, b) => a.at - b.at).slice(0, citationsMax);
  const positionOf = codePointCounter(text);
  return inOrder.map(({ at, end, page: { url, title } }) => ({
    url,
    title,
    quote: '',
    range: { start: positionOf(at), end: positionOf(end) },
  }));
}

function withoutMarks(matched: string): string {
  let end = matched.length;
  while (sentenceMarks.includes(matched.charAt(end - 1))) end -= 1;
  return matched.slice(0, end);
}

/** Models drop the slash at the end, and the fragment, and some add where they found the page. */
function addressKey(address: string): string {
  if (!URL.canParse(address)) return address;
  const url = new URL(address);
  url.hash = '';
  url.searchParams.delete('utm_source');
  return url.href.replace(/\/$/, '');
}

/** Turns positions in UTF-16, asked for in nearly growing order, into those in code points. */
function codePointCounter(text: string): (at: number) => number {
  let [units, points] = [0, 0];
  return (at) => {
    if (at < units) [units, points] = [0, 0];
    while (units < at) {
      units += (text.codePointAt(units) ?? 0) > 0xffff ? 2 : 1;
      points += 1;
    }
    return points;
  };
}
