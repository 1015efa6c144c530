import { describe, expect, test } from 'bun:test';
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
  // Nobody is waiting for the place, so it is reported with the next request.
  expect(told).toEqual([]);
  for (const { run } of places.chores()) await run();
  expect([renewed, told]).toEqual([[[stays ?? '']], [[leaves ?? '']]]);
});

test('those left where there is room are told once they fill a message', async () => {
  const told: (readonly string[])[] = [];
  const places = new SharedPlaces(
    {
      isUp: true,
      take: async () => undefined,
      addTokens: async () => undefined,
      enter: async () => ({ isFree: true, taken: 1 }),
      leave: async (_, left) => void told.push(left),
      renew: async () => undefined,
    },
    'here',
  );
  const taken: string[] = [];
  while (taken.length < 501) taken.push((await places.enter('acme', 10_000)) ?? '');
  for (const place of taken.slice(0, 499)) places.leave('acme', place);
  expect(told).toEqual([]);
  places.leave('acme', taken[499] ?? '');
  expect(told).toEqual([taken.slice(0, 500)]);
});

describe('places that are left while nobody can be told', () => {
  async function leftWhileAway(count: number) {
    const told: (readonly string[])[] = [];
    const state = { isUp: true, asked: 0 };
    const places = new SharedPlaces(
      {
        get isUp() {
          state.asked += 1;
          return state.isUp;
        },
        take: async () => undefined,
        addTokens: async () => undefined,
        enter: async (_, place) => ({ isFree: true, taken: Number(place.split(':')[1]) }),
        leave: async (_, left) => void told.push(left),
        renew: async () => undefined,
      },
      'here',
    );
    const taken: string[] = [];
    while (taken.length < count) taken.push((await places.enter('acme', 2)) ?? '');
    state.isUp = false;
    for (const place of taken) places.leave('acme', place);
    await places.tellLeft();
    expect(told).toEqual([]);
    return { places, told, taken, state };
  }

  test('are told as soon as somebody can be: until then others would find none free', async () => {
    const { places, told, taken, state } = await leftWhileAway(2);
    await places.renew();
    state.isUp = true;
    await places.tellLeft();
    await places.tellLeft();
    expect(told).toEqual([taken]);
  });

  test('are forgotten when they have ended by themselves, after 30 seconds', async () => {
    const { places, told, state } = await leftWhileAway(2);
    for (let seconds = 0; seconds <= 30; seconds += 10) await places.renew();
    state.isUp = true;
    await places.tellLeft();
    expect(told).toEqual([]);
  });

  test('are remembered for as long each time that nobody can be told', async () => {
    const { places, told, state } = await leftWhileAway(2);
    for (let seconds = 0; seconds <= 30; seconds += 10) await places.renew();
    state.isUp = true;
    await places.renew();
    const place = (await places.enter('acme', 2)) ?? '';
    state.isUp = false;
    places.leave('acme', place);
    await places.renew();
    state.isUp = true;
    await places.tellLeft();
    expect(told).toEqual([[place]]);
  });

  test('are remembered up to as many as one message takes', async () => {
    const { places, told, taken, state } = await leftWhileAway(501);
    state.isUp = true;
    await places.tellLeft();
    expect(told).toEqual([taken.slice(0, 500)]);
  });

  test('cost one look for all tenants, 50 times a second', async () => {
    const { places, state } = await leftWhileAway(1);
    for (let tenant = 0; tenant < 100; tenant++) {
      places.leave(`tenant-${tenant}`, (await places.enter(`tenant-${tenant}`, 2)) ?? '');
    }
    state.asked = 0;
    await places.tellLeft();
    expect(state.asked).toBe(1);
  });
});
