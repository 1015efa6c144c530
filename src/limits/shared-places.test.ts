import { expect, test } from 'bun:test';
import type { SharedCounts } from './shared-counts.ts';
import { SharedPlaces } from './shared-places.ts';

test('its chores keep the places of running requests, and tell of those left', async () => {
  const renewed: (readonly string[])[] = [];
  const told: (readonly string[])[] = [];
  const shared: SharedCounts = {
    isUp: true,
    take: async () => undefined,
    addTokens: async () => undefined,
    enter: async () => ({ isFree: true, taken: 1 }),
    leave: async (_, places) => void told.push(places),
    renew: async (_, places) => void renewed.push(places),
  };
  const places = new SharedPlaces(shared, 'here');
  const [stays, leaves] = [await places.enter('acme', 100), await places.enter('acme', 100)];
  places.leave('acme', leaves ?? '');
  // Nobody is waiting for it, so it is told with what comes next.
  expect(told).toEqual([]);
  for (const { run } of places.chores()) await run();
  expect([renewed, told]).toEqual([[[stays ?? '']], [[leaves ?? '']]]);
});
