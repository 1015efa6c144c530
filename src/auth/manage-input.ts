import { type TSchema, Type } from 'typebox';
import { nameLengthMax } from '../core/bounds.ts';
import { invalidRequest } from '../core/errors.ts';
import { explain } from '../core/explain.ts';

/** The schema parts of everything an operator or a manager types, and the one way to check it. */

/** The value in its type, or a refusal that names the first field that does not fit. */
export function validate<T>(
  compiled: { Check(value: unknown): value is T },
  schema: object,
  value: unknown,
): T {
  if (compiled.Check(value)) return value;
  const problems = explain(schema, value);
  // A misspelt field explains a missing one better than the other way round.
  const problem = problems.find(({ message }) => message.includes('did you mean')) ?? problems[0];
  if (!problem) throw invalidRequest('The request does not have the expected shape.');
  const { path, message } = problem;
  if (path === '') throw invalidRequest(`The request ${message}.`);
  const end = message.endsWith('?') ? '' : '.';
  throw invalidRequest(`${path} ${message}${end}`, path);
}

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

export function wholeNumber(minimum: number, maximum = Number.MAX_SAFE_INTEGER) {
  return Type.Integer({ minimum, maximum });
}

/** A count with a lower bound only; numbers that lose precision are refused all the same. */
export function count(minimum: number) {
  const expected = `a whole number of at least ${minimum}`;
  return Type.Integer({ minimum, maximum: Number.MAX_SAFE_INTEGER, expected });
}

export function oneOf<const V extends readonly string[]>(values: V) {
  return Type.Unsafe<V[number]>(Type.Enum([...values]));
}

/** May be left out, and `null` means the same as on a new record: no limit, no restriction. */
export function optional<S extends TSchema>(schema: S) {
  return Type.Optional(Type.Union([schema, Type.Null()]));
}
