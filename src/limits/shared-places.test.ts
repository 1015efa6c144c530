import { describe, expect, test } from 'bun:test';
import type { SharedCounts } from './shared-counts.ts';
import { SharedPlaces } from './shared-places.ts';

/** A shared memory with room for everybody; a test replaces what it is about. */
const roomy: SharedCounts = {
  isUp: true,
  take: async () => undefined,
  addTokens: async () => undefined,
  enter: async () => ({ isFree: true, taken: 1 }),
  leave: async () => undefined,
  renew: async () => undefined,
};

test('the chores renew the places of running requests and report those given back', async () => {
  const renewed: (readonly string[])[] = [];
  const told: (readonly string[])[] = [];
  const shared: SharedCounts = {
    ...roomy,
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

test('places given back where there is room are reported once they fill a message', async () => {
  const told: (readonly string[])[] = [];
  const leave: SharedCounts['leave'] = async (_, left) => void told.push(left);
  const places = new SharedPlaces({ ...roomy, leave }, 'here');
  const taken: string[] = [];
  while (taken.length < 501) taken.push((await places.enter('acme', 10_000)) ?? '');
  for (const place of taken.slice(0, 499)) places.leave('acme', place);
  expect(told).toEqual([]);
  places.leave('acme', taken[499] ?? '');
  expect(told).toEqual([taken.slice(0, 500)]);
});

describe('places given back while the shared memory is away', () => {
  async function leftWhileAway(count: number) {
    const told: (readonly string[])[] = [];
    const state = { isUp: true, asked: 0 };
    const places = new SharedPlaces(
      {
        ...roomy,
        get isUp() {
          state.asked += 1;
          return state.isUp;
        },
        enter: async (_, place) => ({ isFree: true, taken: Number(place.split(':')[1]) }),
        leave: async (_, left) => void told.push(left),
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

  test('are reported as soon as it is back: until then others would find none free', async () => {
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

  test('are remembered for 30 seconds of each outage', async () => {
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

  test('are remembered up to the number that one message takes', async () => {
    const { places, told, taken, state } = await leftWhileAway(501);
    state.isUp = true;
    await places.tellLeft();
    expect(told).toEqual([taken.slice(0, 500)]);
  });

  test('cost one look at the shared memory for all tenants', async () => {
    const { places, state } = await leftWhileAway(1);
    for (let tenant = 0; tenant < 100; tenant++) {
      places.leave(`tenant-${tenant}`, (await places.enter(`tenant-${tenant}`, 2)) ?? '');
    }
    state.asked = 0;
    await places.tellLeft();
    expect(state.asked).toBe(1);
  });
});
