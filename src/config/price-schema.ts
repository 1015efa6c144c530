import { type Static, Type } from 'typebox';
import { Check } from 'typebox/schema';
import type { JsonObject } from '../core/json.ts';
import { integer } from '../core/schema.ts';
import { mapPrices, priceNames } from '../money/price/price-classes.ts';
import { pricingSchema } from './model-schema.ts';
import { priceSource, strictObject, timeWithOffset, usd } from './schema-fields.ts';

const priceTime = timeWithOffset();

/** Returns a time in epoch milliseconds, or NaN for one that doesn't exist. */
export function readPriceTime(text: string): number {
  // Date.parse reads February 30 as March 2.
  const day = text.slice(0, 'YYYY-MM-DD'.length);
  const midnight = Date.parse(`${day}T00:00:00Z`);
  const exists = !Number.isNaN(midnight) && new Date(midnight).toISOString().startsWith(day);
  return exists ? Date.parse(text) : Number.NaN;
}

/** The price of a model at a provider, from a time on. */
export const priceSchema = Type.Object(
  {
    model: Type.String({ minLength: 1 }),
    provider: Type.String({ minLength: 1 }),
    /** Only needed if the model has several endpoints at the provider. */
    upstream_model: Type.Optional(Type.String({ minLength: 1 })),
    /** Omitted: the prices before the first change, in place of those of the model. */
    from: Type.Optional(priceTime),
    pricing: pricingSchema,
    price_source: Type.Optional(priceSource()),
  },
  { additionalProperties: false },
);
export type PriceConfig = Static<typeof priceSchema>;

/** Returns the name of a price. One without a start time can only be in a file. */
export function priceName(price: JsonObject): string {
  const { model, provider, upstream_model: upstream, from } = price;
  const endpoint =
    upstream === undefined ? `${model}@${provider}` : `${model}@${provider}/${upstream}`;
  return from === undefined ? endpoint : `${endpoint}@${from}`;
}

/** Providers have no slashes, and times have no "@". Upstream models may have both. */
const priceNamePattern =
  /^(?<model>[^@\s]+)@(?<provider>[^@\s/]+)(?:\/(?<upstream>\S+))?@(?<from>[^@\s]+)$/;

type PriceId = Pick<PriceConfig, 'model' | 'provider' | 'upstream_model'> & {
  readonly from: string;
};

/** Returns what the name of a price says. Undefined if it isn't one, or has no valid time. */
export function readPriceName(name: string): PriceId | undefined {
  const {
    model = '',
    provider = '',
    upstream,
    from = '',
  } = priceNamePattern.exec(name)?.groups ?? {};
  if (!Check(priceTime, from) || Number.isNaN(readPriceTime(from))) return undefined;
  return { model, provider, ...(upstream !== undefined && { upstream_model: upstream }), from };
}

export const planNamePattern = '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$';

/** What the tenants of a plan pay compared to list prices. */
export const planSchema = strictObject({
  /** 10000 is the list price, 12000 is 20% more. */
  factor_basis_points: integer(0, 1_000_000),
  /** US dollars added to each price after the factor, such as `request: "0.001"`. */
  surcharge: strictObject(mapPrices(priceNames, () => usd())),
  /** Replaces `billing.byok_fee_basis_points`. */
  byok_fee_basis_points: integer(0, 100_000),
});
export type PlanConfig = Static<typeof planSchema>;
