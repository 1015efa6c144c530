import type { RawResult, SearchResult } from './search.ts';

/** Makes the words of strangers safe to hand on: short, on one line, nothing hidden in them. */

const titleMax = 200;
const snippetMax = 2_000;
const urlMax = 2_000;

/**
 * Removed without a trace, since they only exist to deceive a reader: marks that turn the reading
 * direction, zero-width spaces, and the invisible alphabet in which text is smuggled to models.
 */
const turns = '\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069';
const blanks = '\\u00ad\\u200b\\u2060-\\u2064\\u206a-\\u206f\\ufeff';
const hidden = new RegExp(`[${turns}${blanks}\\u{e0000}-\\u{e007f}]`, 'gu');
const gaps = /[\p{Cc}\s\u2028\u2029]+/gu;

export function cleanText(text: string, lengthMax: number): string {
  // Cut first, so that nothing below has to go through a megabyte.
  const clean = text
    .slice(0, lengthMax * 4)
    .toWellFormed()
    .replace(hidden, '')
    .replace(gaps, ' ')
    .trim();
  const points = [...clean];
  return points.length <= lengthMax ? clean : `${points.slice(0, lengthMax - 1).join('')}…`;
}

/** Undefined for a result without a web address; one without a title is known by its host. */
export function cleanResult(raw: RawResult): SearchResult | undefined {
  const url = webAddress(raw.url);
  if (!url) return undefined;
  const date = dayOf(raw.date);
  return {
    title: textOf(raw.title, titleMax) || url.hostname,
    url: url.href,
    snippet: textOf(raw.snippet, snippetMax),
    ...(date === undefined ? {} : { date }),
  };
}

function textOf(value: unknown, lengthMax: number): string {
  return typeof value === 'string' ? cleanText(value, lengthMax) : '';
}

function webAddress(value: unknown): URL | undefined {
  if (typeof value !== 'string' || value.length > urlMax || !URL.canParse(value)) return undefined;
  const url = new URL(value);
  const isWeb = url.protocol === 'http:' || url.protocol === 'https:';
  // A user name can pose as the host: https://bank.example@evil.example.
  const isPlain = url.username === '' && url.password === '';
  return isWeb && isPlain && url.href.length <= urlMax ? url : undefined;
}

/** The engines write dates in several ways; the day is all that a model needs. */
function dayOf(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > 60) return undefined;
  // An ISO time without a zone would be read in the zone of this machine.
  const [day] = /^\d{4}-\d{2}-\d{2}/.exec(value) ?? [];
  const time = Date.parse(day ?? value);
  if (Number.isNaN(time)) return undefined;
  const iso = new Date(time).toISOString();
  return /^\d{4}-/.test(iso) ? iso.slice(0, 10) : undefined;
}
