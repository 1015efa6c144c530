import { Type } from 'typebox';
import { nameLengthMax } from '../../core/bounds.ts';

/** The schema parts of everything an operator or a manager types. */

/**
 * Text on one line, as it may appear in a terminal, a log line or a spreadsheet: no control
 * characters, no line separators, nothing that turns the reading direction, no halves of a
 * surrogate pair (which no database can give back as they came).
 */
export function line(lengthMin: number, lengthMax: number) {
  const visible = '[^\\x00-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]';
  const pair = '[\\ud800-\\udbff][\\udc00-\\udfff]';
  return Type.String({
    pattern: `^(?:${visible}|${pair}){${lengthMin},${lengthMax}}$`,
    expected: `${lengthMin} to ${lengthMax} characters without line breaks or control characters`,
  });
}

export function name() {
  return line(1, nameLengthMax);
}

/** A count with a lower bound only; numbers that lose precision are refused all the same. */
export function count(minimum: number) {
  const expected = `a whole number of at least ${minimum}`;
  return Type.Integer({ minimum, maximum: Number.MAX_SAFE_INTEGER, expected });
}
