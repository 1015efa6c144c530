import { type Static, Type } from 'typebox';
import { integer } from '../core/schema.ts';
import { mapPrices, priceNames } from '../money/price/price-classes.ts';
import { pricingSchema } from './model-schema.ts';
import { strictObject, usd } from './schema-fields.ts';

export const priceTime = Type.String({
  pattern: '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}(:\\d{2}(\\.\\d{1,3})?)?(Z|[+-]\\d{2}:\\d{2})$',
  expected: 'a time with its offset, such as "2026-12-01T00:00:00Z"',
});

/** The price of a model at a provider, from a time on. */
export const priceSchema = Type.Object(
  {
    model: Type.String({ minLength: 1 }),
    provider: Type.String({ minLength: 1 }),
    /** Omitted: the prices before the first change, in place of those of the model. */
    from: Type.Optional(priceTime),
    pricing: pricingSchema,
  },
  { additionalProperties: false },
);
export type PriceConfig = Static<typeof priceSchema>;

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
