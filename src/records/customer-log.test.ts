import { expect, test } from 'bun:test';
import { makeRecord } from '../../tests/support/record.ts';
import { newRequestId } from '../core/ids.ts';
import { findWithRetry } from './customer-log.ts';

test('findWithRetry retries after a suspension, because the record may not be committed yet', async () => {
  const requestId = newRequestId();
  const committed = makeRecord({ requestId });
  let lookups = 0;
  const found = await findWithRetry(requestId, async () => {
    lookups += 1;
    if (lookups > 1) return committed;
    // The process that commits the record is suspended as well.
    Bun.sleepSync(2_100);
    return undefined;
  });
  expect(found).toBe(committed);
});
