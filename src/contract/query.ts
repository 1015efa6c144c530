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

const dayPattern = '\\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\\d|3[01])';
const clockPattern = '(?:[01]\\d|2[0-3]):[0-5]\\d(?::[0-5]\\d(?:\\.\\d{1,9})?)?';
const zonePattern = '(?:[Zz]|[+-](?:[01]\\d|2[0-3]):?[0-5]\\d)?';
const date = Type.String({
  pattern: `^${dayPattern}(?:[Tt]${clockPattern}${zonePattern})?$`,
  description: 'YYYY-MM-DD or ISO 8601, UTC, inclusive.',
});

/** The dates of a report or a log, as `readPeriod` in src/records/period.ts reads them. */
export const datesQuery = { start_date: date, end_date: date };
