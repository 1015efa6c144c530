import { Type } from 'typebox';
import { nameLengthMax } from '../../core/bounds.ts';

/** The schema parts of everything an operator or a manager types. */

/**
 * Text on one line, as it may appear in a terminal, a log line or a spreadsheet: no control
 * characters, no line separators, nothing that turns the reading direction, no halves of a
 * surrogate pair (which no database can give back as they came). A text that must be there must be
 * seen, too: a name of spaces is a row in a list that nobody can tell from a gap.
 */
export function lineField(lengthMin: number, lengthMax: number) {
  const visible = '[^\\x00-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]';
  const pair = '[\\ud800-\\udbff][\\udc00-\\udfff]';
  const hasVisible = lengthMin > 0 ? '(?=.*[^\\s\\xad\\u200b-\\u200f\\u2060-\\u2064])' : '';
  const blanks = lengthMin > 0 ? ', not only spaces,' : '';
  return Type.String({
    pattern: `^${hasVisible}(?:${visible}|${pair}){${lengthMin},${lengthMax}}$`,
    expected:
      `${lengthMin} to ${lengthMax} characters${blanks} ` +
      'without line breaks or control characters',
  });
}

export function nameField() {
  return lineField(1, nameLengthMax);
}

/** A count with a lower bound only; numbers that lose precision are refused all the same. */
export function countField(minimum: number) {
  const expected = `a whole number of at least ${minimum}`;
  return Type.Integer({ minimum, maximum: Number.MAX_SAFE_INTEGER, expected });
}
