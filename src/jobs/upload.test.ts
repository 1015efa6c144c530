import { expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import { storeText } from './upload.ts';

/** What a client hears whose input meets a storage that fails so. */
function failureWith(thrown: Error): Promise<unknown> {
  const nothing = async () => undefined;
  const store = {
    put: () => Promise.reject(thrown),
    open: nothing,
    delete: nothing,
    link: () => '',
  };
  return failureOf(storeText('Hello.', 'job_1', 0, { store, objects: { note: nothing } }));
}

test('a storage that is away or full is 503, not a failure of ours', async () => {
  const full = Object.assign(new Error('no space left'), { code: 'ENOSPC' });
  const failure = await failureWith(full);
  expect(failure).toBeInstanceOf(GatewayError);
  expect(failure).toMatchObject({
    symbol: 'service_unavailable',
    retryAfterSeconds: 5,
    cause: full,
  });
});

test('what the client did wrong is told as it is', async () => {
  const refusal = invalidRequest('file is too long.', 'file', 413);
  expect(await failureWith(refusal)).toBe(refusal);
});
