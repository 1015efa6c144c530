/** Groups the API's prices by endpoint, and compares them. */
import { isPriceName, type PriceName, priceClasses } from '../src/money/price/price-classes.ts';
import { plural } from './format.ts';
import type { Price } from './shapes.ts';

export type Pricing = Price['pricing'];

/** The prices of a model at a provider, oldest first. */
export interface PriceHistory {
  /** The model, the provider, and the provider's name for the model if it has several there. */
  readonly name: string;
  readonly model: string;
  readonly provider: string;
  /** The provider's name for the model, or undefined if the model has only one there. */
  readonly upstreamModel: string | undefined;
  readonly prices: readonly Price[];
  readonly current: Price;
  /** The next scheduled price. */
  readonly next: Price | undefined;
}

const startOf = ({ from }: Price) => (from === null ? Number.NEGATIVE_INFINITY : Date.parse(from));

export function historiesOf(prices: readonly Price[]): PriceHistory[] {
  const byProvider = Map.groupBy(prices, ({ model, provider }) => `${model}@${provider}`);
  return [...byProvider].flatMap(([name, all]) => {
    const endpoints = Map.groupBy(all, ({ upstream_model }) => upstream_model);
    return [...endpoints].flatMap(([upstreamModel, own]) =>
      endpoints.size > 1
        ? historyOf(`${name}/${upstreamModel}`, own, upstreamModel)
        : historyOf(name, own, undefined),
    );
  });
}

function historyOf(
  name: string,
  unsorted: readonly Price[],
  upstreamModel: string | undefined,
): PriceHistory[] {
  const prices = unsorted.toSorted((a, b) => startOf(a) - startOf(b));
  const current = prices.findLast(({ state }) => state === 'in_force') ?? prices[0];
  if (!current) return [];
  const { model, provider } = current;
  const next = prices.find(({ state }) => state === 'scheduled');
  return [{ name, model, provider, upstreamModel, prices, current, next }];
}

/** Says where a price was read, and when. */
export function sourceText({ name, date, dated, age_days }: NonNullable<Price['price_source']>) {
  const isList = dated === 'catalog';
  const age = age_days === null ? [] : [`${isList ? 'about ' : ''}${plural(age_days, 'day')} ago`];
  const when = date === null ? ['at an unknown time'] : [date, ...age];
  return `${name} (${when.join(', ')}${isList ? ': the date of the built-in list' : ''})`;
}

/** Prices that were read longer ago may no longer be those of the provider. */
export const oldDays = 90;

export function ageOf({ current }: PriceHistory): number {
  return current.price_source?.age_days ?? 0;
}

/** Returns the price classes that a price sets, in the order of a receipt. */
export function setPrices(pricing: Pricing): readonly [PriceName, string][] {
  const names = Object.keys(priceClasses).filter(isPriceName);
  return names.flatMap((name) => {
    const text = pricing[name];
    return text === undefined ? [] : [[name, text] as [PriceName, string]];
  });
}

/** Says what a price class costs that isn't set. */
export function unsetText(name: PriceName): string {
  const entry = priceClasses[name];
  return 'fallback' in entry ? `as ${priceClasses[entry.fallback].label.toLowerCase()}` : 'free';
}

/** `+20%`, `−50%`, `new`, `removed`, or undefined if a price stays the same. */
export function changeText(before: string | undefined, after: string | undefined) {
  if (before === undefined) return after === undefined ? undefined : 'new';
  if (after === undefined) return 'removed';
  const [old, current] = [Number(before), Number(after)];
  if (old === current) return undefined;
  if (old === 0) return 'no longer free';
  const percent = ((current - old) / old) * 100;
  const digits = Math.abs(percent) < 10 ? 1 : 0;
  return `${percent > 0 ? '+' : '−'}${Number(Math.abs(percent).toFixed(digits))}%`;
}

const decimal = /^\d{1,9}(\.\d{1,9})?$/;

/** Returns what is wrong with the fields of a price, by path. */
export function pricingProblems({ long_prompts = [], ...pricing }: Pricing): Map<string, string> {
  const problems = priceProblems(pricing, 'pricing');
  for (const [index, { above_tokens, ...tier }] of long_prompts.entries()) {
    const path = `pricing.long_prompts[${index}]`;
    if (!(above_tokens >= 1)) problems.set(`${path}.above_tokens`, 'Enter a number of tokens.');
    for (const [field, problem] of priceProblems(tier, path)) problems.set(field, problem);
  }
  return problems;
}

/** Returns what is wrong with prices that have this path, by path. */
export function priceProblems(prices: object, path: string): Map<string, string> {
  const wrong = Object.entries(prices).filter(([, value]) => !decimal.test(String(value)));
  return new Map(wrong.map(([name]) => [`${path}.${name}`, decimalProblem]));
}

const decimalProblem = 'Enter dollars with a decimal point, such as 0.50, with up to 9 decimals.';

export function pricePath(name: string): string {
  return `/admin/v1/prices/${name.split('/').map(encodeURIComponent).join('/')}`;
}
