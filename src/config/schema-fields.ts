import { type TProperties, Type } from 'typebox';

/** Small schema builders whose `expected` texts become the second half of an error sentence. */

/** The most names that an error message lists: enough to show what kind of name is wanted. */
const shownNamesMax = 4;

/**
 * An object whose fields are all optional; unknown fields are refused, so typing errors are found.
 */
export function strictObject<P extends TProperties>(properties: P) {
  const names = Object.keys(properties);
  const shown = names.slice(0, shownNamesMax).join(', ');
  const expected = `a section with ${shown}${names.length > shownNamesMax ? ', …' : ''}`;
  return Type.Partial(Type.Object(properties), { additionalProperties: false, expected });
}

/** An address may hold a password, so error messages do not repeat a wrong one. */
export function httpAddress(example: string) {
  return Type.String({
    pattern: '^https?://[^\\s]+$',
    expected: `an http(s) address such as "${example}"`,
    hidden: true,
  });
}

/** A credential: error messages do not repeat it. */
export function secretText() {
  const expected = 'a text in quotes that is not empty';
  return Type.String({ minLength: 1, expected, hidden: true });
}

/** Prices are written in quotes, so that no YAML reader turns them into floating-point numbers. */
export function usd() {
  return Type.String({
    pattern: '^\\d{1,9}(\\.\\d{1,9})?$',
    expected: 'a decimal number of dollars in quotes, such as "0.50"',
    nearly: {
      pattern: '^\\d+(\\.\\d+)?$',
      expected: 'dollars of at most 9 digits before the point and 9 behind it',
    },
  });
}
