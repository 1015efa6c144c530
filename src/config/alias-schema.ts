import { type Static, Type } from 'typebox';
import { chainModelsMax } from '../core/bounds.ts';
import { integer } from '../core/schema.ts';
import { strictObject } from './schema-fields.ts';

const names = Type.Array(Type.String({ minLength: 1 }), { minItems: 1, maxItems: 1000 });

/** Which requests a model of an alias is for. All conditions have to hold. */
const conditionsSchema = strictObject({
  /** The IDs of tenants. */
  tenants: names,
  /** The IDs of API keys. */
  keys: names,
  /** A text of 4 bytes counts as one token. */
  input_tokens_above: integer(0),
  /** True for requests with images, false for requests without. */
  images: Type.Boolean(),
  /** True for requests with tools, false for requests without. */
  tools: Type.Boolean(),
  /** A request header that has exactly this value. */
  header: Type.Object(
    {
      name: Type.String({ pattern: '^[A-Za-z0-9-]{1,100}$', expected: 'the name of a header' }),
      value: Type.String({ maxLength: 1000 }),
    },
    { additionalProperties: false },
  ),
  /** One of the comma-separated tags in the header X-Tollgate-Tags. */
  tag: Type.String({ minLength: 1, maxLength: 100 }),
  /** The share of requests, in percent. */
  percent: Type.Number({ minimum: 0, maximum: 100 }),
});
export type AliasConditions = Static<typeof conditionsSchema>;

const targetSchema = Type.Object(
  {
    model: Type.String({ minLength: 1, maxLength: 200 }),
    /** The first of the models with a weight is chosen at random, in proportion to the weights. */
    weight: Type.Optional(integer(0, 1_000_000)),
    when: Type.Optional(conditionsSchema),
  },
  { additionalProperties: false },
);
export type AliasTarget = Static<typeof targetSchema>;

export const aliasSchema = Type.Object(
  {
    description: Type.Optional(Type.String({ maxLength: 2000 })),
    /** The models to try, in order. A text is a model without weight and conditions. */
    models: Type.Array(Type.Union([Type.String({ minLength: 1, maxLength: 200 }), targetSchema]), {
      minItems: 1,
      maxItems: chainModelsMax,
    }),
  },
  { additionalProperties: false },
);
export type AliasConfig = Static<typeof aliasSchema>;

/**
 * Any name that a request can have, because clients have fixed names for their models. A final `*`
 * stands for any text. Postgres can't store a null character.
 */
export const aliasNamePattern = '^[^\\s*\\x00-\\x1f\\x7f]{1,199}\\*?$';
