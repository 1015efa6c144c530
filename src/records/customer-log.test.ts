import { describe, expect, test } from 'bun:test';
import { makeRecord } from '../../tests/support/record.ts';
import { newRequestId } from '../core/ids.ts';
import { findInAnyProcess } from './customer-log.ts';

/** Counts the lookups. The record is committed from this lookup on. */
function makeLookup({ committedFrom = Infinity, isReported = false, onFirst = () => {} }) {
  let lookups = 0;
  const record = makeRecord();
  return {
    lookups: () => lookups,
    record: async () => {
      lookups += 1;
      if (lookups === 1) onFirst();
      return lookups >= committedFrom ? record : undefined;
    },
    running: async () => (isReported ? 'running' : undefined),
    isOnlyHere: () => false,
    committed: record,
  };
}

describe('findInAnyProcess', () => {
  test('retries after a suspension, because the record may not be committed yet', async () => {
    // The process that commits the record is suspended as well.
    const lookup = makeLookup({ committedFrom: 2, onFirst: () => Bun.sleepSync(2_600) });
    expect(await findInAnyProcess(newRequestId(), lookup)).toBe(lookup.committed);
  });

  test('looks once for an ID that is too old to be missing in a report', async () => {
    const lookup = makeLookup({});
    const id = newRequestId(Date.now() - 4_000);
    expect([await findInAnyProcess(id, lookup), lookup.lookups()]).toEqual([undefined, 1]);
  });

  test('looks once for a text that is no request ID', async () => {
    const lookup = makeLookup({});
    expect([await findInAnyProcess('nonsense', lookup), lookup.lookups()]).toEqual([undefined, 1]);
  });

  test('waits for the record of a request that another process reported but may have ended', async () => {
    const lookup = makeLookup({ committedFrom: 3, isReported: true });
    const id = newRequestId(Date.now() - 60_000);
    expect(await findInAnyProcess(id, lookup)).toBe(lookup.committed);
  });

  test('returns a request that keeps running in another process', async () => {
    const lookup = makeLookup({ isReported: true });
    expect(await findInAnyProcess(newRequestId(), lookup)).toBe('running');
  });

  test('returns a request of this process at once', async () => {
    const lookup = { ...makeLookup({ isReported: true }), isOnlyHere: () => true };
    const found = await findInAnyProcess(newRequestId(), lookup);
    expect([found, lookup.lookups()]).toEqual(['running', 1]);
  });
});
