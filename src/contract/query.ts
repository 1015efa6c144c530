import { Type } from 'typebox';

// Query parameters that several routes share.

export interface Cap {
  readonly defaultValue: number;
  readonly max: number;
}

/** A count with a maximum. A larger value is not rejected but lowered to the maximum. */
export const cappedSchema = ({ defaultValue, max }: Cap) =>
  Type.Integer({
    minimum: 1,
    default: defaultValue,
    description: `Values above ${max} are lowered to ${max}.`,
  });

export const offsetSchema = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  default: 0,
  description: 'How many items to skip at the start of the list.',
});

export const offsetQuery = { offset: offsetSchema };

export const limitCap: Cap = { defaultValue: 50, max: 100 };
export const limitSchema = cappedSchema(limitCap);

export const limitQuery = { limit: limitSchema };
