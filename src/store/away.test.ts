import { expect, test } from 'bun:test';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import { storeAway } from './away.ts';

const withCode = (code: string) => Object.assign(new Error('told by the driver'), { code });

test.each([
  '57P01',
  '08006',
  '53300',
  '25006',
  '25P03',
  // A deadlock, and a change that another one overtook: undone as a whole, to be tried again.
  '40P01',
  '40001',
  'ECONNREFUSED',
  'SQLITE_FULL',
  'SQLITE_IOERR_WRITE',
])('%s is a store that is away', (code) => {
  const thrown = withCode(code);
  const error = storeAway(thrown);
  expect(error).toBeInstanceOf(GatewayError);
  expect(error).toMatchObject({ symbol: 'service_unavailable', status: 503, cause: thrown });
  expect(error?.message).not.toContain('driver');
});

test.each([
  'Connection terminated unexpectedly',
  'timeout exceeded when trying to connect',
  'Query read timeout',
])('so is «%s»', (message) => {
  expect(storeAway(new Error(message))?.status).toBe(503);
});

test.each([
  ['a statement that is wrong', withCode('42601')],
  ['a row that is there already', withCode('23505')],
  ['a mistake of ours', new TypeError('undefined is not a function')],
  ['what was explained already', invalidRequest('name is required.', 'name')],
  ['no error at all', 'Connection terminated unexpectedly'],
])('%s is not', (_, thrown) => {
  expect(storeAway(thrown)).toBeUndefined();
});
