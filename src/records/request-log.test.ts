import { expect, test } from 'bun:test';
import { makeRecord } from '../../tests/support/record.ts';
import { newRequestId } from '../core/ids.ts';
import { findWithRetry } from './request-log.ts';

test('a machine that stood still is given the time to book what was just answered', async () => {
  const requestId = newRequestId();
  const booked = makeRecord({ requestId });
  let looks = 0;
  const found = await findWithRetry(requestId, async () => {
    looks += 1;
    if (looks > 1) return booked;
    // The process that has to book it stands still as well.
    Bun.sleepSync(2_100);
    return undefined;
  });
  expect(found).toBe(booked);
});
