import type { Citation } from '../core/answer.ts';
import { citationsMax } from '../core/bounds.ts';

/** A search result that an answer may cite. */
export interface FoundPage {
  readonly url: string;
  readonly title: string;
  /** The engine's excerpt, or ''. */
  readonly snippet: string;
}

/** The maximum length of a quote, as in Anthropic's citations. */
const quoteLengthMax = 150;

/** Code is skipped: `list[1]` isn't a citation. */
const codePattern = /```[\s\S]*?(?:```|$)|`[^`\n]*`/g;
/**
 * Matches `[title](url)`, optionally with text after the URL and a space. URLs may have paired
 * parentheses, as Wikipedia's do. No character can match in two ways: otherwise a text full of
 * unfinished links would backtrack for seconds.
 */
const urlSource = 'https?://(?:[^\\s()<>]|\\([^\\s()<>]*\\)){1,2000}';
const afterUrl = '[ \\t](?:[^()\\n]|\\([^()\\n]*\\)){0,500}';
const linkPattern = new RegExp(
  `\\[([^[\\]\\n]{0,500})\\]\\(<?(${urlSource})>?(?:${afterUrl})?\\)`,
  'g',
);
const urlPattern = new RegExp(urlSource, 'g');
/** At the end of a bare URL, these characters belong to the sentence around it. */
const sentenceMarks = '.,;:!?\'"*_]';
/** Matches `[1]`, `[1, 2]`, `【1】`, and `【1†source】`, but not the text of a link. */
const marker = /\[(\d{1,3}(?:\s?[,;]\s?\d{1,3}){0,50})\](?!\()|【(\d{1,3})(?:†[^】\n]{0,100})?】/g;

/**
 * Returns the citations of search results in an answer. `pages` are the results sent to the model,
 * in the order of their numbers. Other numbers and URLs are ignored, so that an invented source
 * doesn't look like a search result. Ranges are in code points.
 */
export function citationsIn(text: string, pages: readonly FoundPage[]): Citation[] {
  if (pages.length === 0) return [];
  const prose = text.replace(codePattern, (span) => ' '.repeat(span.length));
  const byUrl = new Map(pages.map((page) => [urlKey(page.url), page]));
  const found: { at: number; end: number; page: FoundPage }[] = [];
  const add = (at: number, matched: string, page: FoundPage | undefined) => {
    if (page) found.push({ at, end: at + matched.length, page });
  };
  for (const { index, 0: matched, 2: url = '' } of prose.matchAll(linkPattern)) {
    add(index, matched, byUrl.get(urlKey(url)));
  }
  const unlinked = prose.replace(linkPattern, (span) => ' '.repeat(span.length));
  for (const { index, 0: matched } of unlinked.matchAll(urlPattern)) {
    const url = withoutSentenceMarks(matched);
    add(index, url, byUrl.get(urlKey(url)));
  }
  for (const { index, 0: matched, 1: list, 2: single = '' } of prose.matchAll(marker)) {
    const numbers = (list ?? single).split(/[,;]/).map(Number);
    for (const number of new Set(numbers)) add(index, matched, pages[number - 1]);
  }
  const inOrder = found.sort((a, b) => a.at - b.at).slice(0, citationsMax);
  const positionOf = codePointCounter(text);
  return inOrder.map(({ at, end, page: { url, title, snippet } }) => ({
    url,
    title,
    quote: startOf(snippet),
    range: { start: positionOf(at), end: positionOf(end) },
  }));
}

/** Cuts a surrogate pair at the end entirely. */
function startOf(snippet: string): string {
  return snippet.slice(0, quoteLengthMax).replace(/[\ud800-\udbff]$/, '');
}

function withoutSentenceMarks(matched: string): string {
  let end = matched.length;
  while (sentenceMarks.includes(matched.charAt(end - 1))) end -= 1;
  return matched.slice(0, end);
}

/** Normalizes a URL: models drop final slashes and fragments, and some add `utm_source`. */
function urlKey(text: string): string {
  if (!URL.canParse(text)) return text;
  const url = new URL(text);
  url.hash = '';
  url.searchParams.delete('utm_source');
  return url.href.replace(/\/$/, '');
}

/** Converts UTF-16 positions to code points. Fast for positions in ascending order. */
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
