import { searchQueryMax, searchWordsMax } from '../core/bounds.ts';

/** Filters by domain: read from what a client wrote, put into a query, applied to a result. */

/** `Https://Docs.Example.com/a` and `*.docs.example.com` as `docs.example.com`. */
export function readDomain(text: string): string | undefined {
  const host = text
    .trim()
    .toLowerCase()
    .replace(/^https?:\/\//, '')
    .replace(/^\*\./, '')
    .replace(/[/?#:].*$/s, '')
    .replace(/\.$/, '');
  return /^(?=.{1,253}$)[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+$/u.test(host)
    ? asciiOf(host)
    : undefined;
}

/** A domain stands for itself and everything below it. */
export function isWithin(
  url: string,
  allowed: readonly string[],
  excluded: readonly string[],
): boolean {
  const host = new URL(url).hostname.replace(/\.$/, '');
  const fits = (domain: string) => host === domain || host.endsWith(`.${domain}`);
  return (allowed.length === 0 || allowed.some(fits)) && !excluded.some(fits);
}

/**
 * For engines that take filters only as words of the query. Adds as many as there is room for: the
 * results are filtered in any case.
 */
export function withSiteWords(
  query: string,
  allowed: readonly string[],
  excluded: readonly string[],
): string {
  let words = query;
  const join = (addition: string) => {
    const longer = `${words} ${addition}`;
    // All allowed domains or none: some alone would hide the results of the others.
    if (isQuery(longer)) words = longer;
  };
  if (allowed.length > 0) join(allowed.map((domain) => `site:${domain}`).join(' OR '));
  for (const domain of excluded) join(`-site:${domain}`);
  return words;
}

function isQuery(text: string): boolean {
  return text.length <= searchQueryMax && text.split(' ').length <= searchWordsMax;
}

/** A host as results spell it: `münchen.example` is `xn--mnchen-3ya.example`. */
function asciiOf(host: string): string | undefined {
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : undefined;
}
