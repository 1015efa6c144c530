import { GatewayError } from './errors.ts';
import { explain, type Problem } from './explain.ts';

/** The value in its type, or a refusal that names the first field that does not fit. 400 */
export function validate<T>(
  compiled: { Check(value: unknown): value is T },
  schema: object,
  value: unknown,
): T {
  if (compiled.Check(value)) return value;
  throw misfit(schema, value);
}

const shapeless: Problem = { path: '', message: 'does not have the expected shape' };

/** Why a value that a schema refused does not fit it. `place` is where in the request it stands. */
export function misfit(schema: object, value: unknown, place = ''): GatewayError {
  const problems = explain(schema, value);
  // A misspelt field explains a missing one better than the other way round.
  const problem = problems.find(({ message }) => message.includes('did you mean')) ?? problems[0];
  const { path, message, unquoted = message } = problem ?? shapeless;
  const param = [place, path].filter((part) => part !== '').join('.');
  const sentence = (words: string) =>
    `${param || 'The request'} ${words}${words.endsWith('?') ? '' : '.'}`;
  return new GatewayError('invalid_request_error', sentence(message), {
    ...(param === '' ? {} : { param }),
    unquoted: sentence(unquoted),
  });
}
