import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { newRequestId } from '../../src/core/ids.ts';
import type { RunningRequest } from '../../src/records/running-requests.ts';
import { engines, openTwice, type TwoStores } from './engines.ts';

const now = 1_700_000_000_000;
const minuteMs = 60_000;

describe.each([...engines])('SqlRunningRequests on $name', ({ empty }) => {
  let stores: TwoStores;
  beforeAll(async () => {
    stores = await openTwice(empty);
  }, 120_000);
  afterAll(() => stores.close());

  test('finds the requests of all processes that report, by tenant', async () => {
    const { one, other } = stores;
    const make = (tenantId: string): RunningRequest => {
      const model = { operation: 'chat', model: 'acme/chat', streamed: true } as const;
      return { requestId: newRequestId(), tenantId, ...model, createdAt: now };
    };
    const [first, second, third] = [make('a'), make('a'), make('b')];
    const find = ({ requestId }: RunningRequest, tenantId: string | null, time = now) =>
      one.runningRequests.find(requestId, tenantId, time);
    await one.runningRequests.report('p1', [first], now);
    await other.runningRequests.report('p2', [second, third], now);
    expect(await find(first, 'a')).toEqual(first);
    expect(await find(second, 'a')).toEqual(second);
    expect(await find({ ...third, requestId: third.requestId.toUpperCase() }, 'b')).toEqual(third);
    expect(await find(third, null)).toEqual(third);
    expect(await find(third, 'a')).toBeUndefined();
    expect(await one.runningRequests.find('%', null, now)).toBeUndefined();

    await other.runningRequests.report('p2', [third], now);
    expect(await find(second, 'a')).toBeUndefined();
    // The process p1 was killed.
    expect(await find(first, 'a', now + minuteMs)).toBeUndefined();
    await other.runningRequests.report('p2', [], now + 61 * minuteMs);
    const { read } = one.database;
    expect(await read.selectFrom('running_requests').selectAll().execute()).toEqual([]);
  });
});
