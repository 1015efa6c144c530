import { type Static, type TProperties, Type } from 'typebox';

// Schema builders. An `expected` text is the second half of an error sentence.

/** The most names that an error message lists as examples. */
const shownNamesMax = 4;

/** An object with optional fields. Unknown fields are rejected, to detect typos. */
export function strictObject<P extends TProperties>(properties: P) {
  const names = Object.keys(properties);
  const shown = names.slice(0, shownNamesMax).join(', ');
  const expected = `a section with ${shown}${names.length > shownNamesMax ? ', …' : ''}`;
  return Type.Partial(Type.Object(properties), { additionalProperties: false, expected });
}

/** A URL may contain a password, so error messages don't repeat invalid ones. */
export function httpUrl(example: string) {
  return Type.String({
    pattern: '^https?://[^\\s]+$',
    expected: `an http(s) URL such as "${example}"`,
    hidden: true,
  });
}

/** A credential. Error messages don't repeat it. */
export function secretText() {
  const expected = 'a non-empty quoted string';
  return Type.String({ minLength: 1, expected, hidden: true });
}

/** A moment, for people in any time zone. */
export function timeWithOffset() {
  return Type.String({
    pattern: '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}(:\\d{2}(\\.\\d{1,3})?)?(Z|[+-]\\d{2}:\\d{2})$',
    expected: 'a time with its offset, such as "2026-12-01T00:00:00Z"',
  });
}

/** Prices are quoted, so that YAML parsers don't read them as floating-point numbers. */
export function usd() {
  return Type.String({
    pattern: '^\\d{1,9}(\\.\\d{1,9})?$',
    expected: 'a decimal number of dollars in quotes, such as "0.50"',
    nearly: {
      pattern: '^\\d+(\\.\\d+)?$',
      expected: 'a dollar amount with at most 9 digits before and 9 after the decimal point',
    },
  });
}

/** Where a price was read, and when. */
export function priceSource() {
  return Type.Object(
    {
      name: Type.String({ minLength: 1, maxLength: 500 }),
      /** The month is enough. Omitted: unknown. */
      date: Type.Optional(
        Type.String({
          pattern: '^\\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\\d|3[01]))?$',
          expected: 'a date or a month, such as "2026-11-20" or "2026-11"',
        }),
      ),
    },
    { additionalProperties: false },
  );
}
export type PriceSource = Static<ReturnType<typeof priceSource>>;
