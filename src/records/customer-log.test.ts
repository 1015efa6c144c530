import { expect, test } from 'bun:test';
import { makeRecord } from '../../tests/support/record.ts';
import { newRequestId } from '../core/ids.ts';
import { findInAnyProcess } from './customer-log.ts';

test('findInAnyProcess retries after a suspension, because the record may not be committed yet', async () => {
  const requestId = newRequestId();
  const committed = makeRecord({ requestId });
  let lookups = 0;
  const found = await findInAnyProcess(requestId, async () => {
    lookups += 1;
    if (lookups > 1) return committed;
    // The process that commits the record is suspended as well.
    Bun.sleepSync(2_600);
    return undefined;
  });
  expect(found).toBe(committed);
});

test('findInAnyProcess looks once for an ID that is too old to be missing in a report', async () => {
  let lookups = 0;
  const found = await findInAnyProcess(newRequestId(Date.now() - 4_000), async () => {
    lookups += 1;
    return undefined;
  });
  expect([found, lookups]).toEqual([undefined, 1]);
});
