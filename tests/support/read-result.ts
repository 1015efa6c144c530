import type { ReadResult, UpstreamFailure } from '../../src/dialects/dialect.ts';

/** Returns the value that was read. Throws the failure's message if reading failed. */
export function valueIn<Value>(result: ReadResult<Value>): Value {
  if (!result.ok) throw new Error(result.failure.message);
  return result.value;
}

/** Returns the failure of a result that must not have a value. */
export function failureIn(result: ReadResult<unknown>): UpstreamFailure {
  if (result.ok) throw new Error(`A failure was expected: ${JSON.stringify(result.value)}`);
  return result.failure;
}
