import { describe, expect, test } from 'bun:test';
import type { SharedCounts } from './shared-counts.ts';
import { SharedSlots } from './shared-slots.ts';

/** A shared memory with room for everybody; a test replaces what it is about. */
const roomy: SharedCounts = {
  isUp: true,
  take: async () => undefined,
  addTokens: async () => undefined,
  enter: async () => ({ isFree: true, running: 1 }),
  leave: async () => undefined,
  renew: async () => undefined,
};

test('the chores renew the places of running requests and report those given back', async () => {
  const renewed: (readonly string[])[] = [];
  const reported: (readonly string[])[] = [];
  const shared: SharedCounts = {
    ...roomy,
    leave: async (_, slots) => void reported.push(slots),
    renew: async (_, slots) => void renewed.push(slots),
  };
  const slots = new SharedSlots(shared, 'here');
  const [stays, leaves] = [await slots.enter('acme', 100), await slots.enter('acme', 100)];
  slots.leave('acme', leaves ?? '');
  // Nobody is waiting for the place, so it is reported with the next request.
  expect(reported).toEqual([]);
  for (const { run } of slots.periodicTasks()) await run();
  expect([renewed, reported]).toEqual([[[stays ?? '']], [[leaves ?? '']]]);
});

test('places given back where there is room are reported once they fill a message', async () => {
  const reported: (readonly string[])[] = [];
  const leave: SharedCounts['leave'] = async (_, left) => void reported.push(left);
  const slots = new SharedSlots({ ...roomy, leave }, 'here');
  const taken: string[] = [];
  while (taken.length < 501) taken.push((await slots.enter('acme', 10_000)) ?? '');
  for (const slot of taken.slice(0, 499)) slots.leave('acme', slot);
  expect(reported).toEqual([]);
  slots.leave('acme', taken[499] ?? '');
  expect(reported).toEqual([taken.slice(0, 500)]);
});

describe('places given back while the shared memory is away', () => {
  async function leftWhileAway(count: number) {
    const reported: (readonly string[])[] = [];
    const state = { isUp: true, requests: 0 };
    const slots = new SharedSlots(
      {
        ...roomy,
        get isUp() {
          state.requests += 1;
          return state.isUp;
        },
        enter: async (_, slot) => ({ isFree: true, running: Number(slot.split(':')[1]) }),
        leave: async (_, left) => void reported.push(left),
      },
      'here',
    );
    const taken: string[] = [];
    while (taken.length < count) taken.push((await slots.enter('acme', 2)) ?? '');
    state.isUp = false;
    for (const slot of taken) slots.leave('acme', slot);
    await slots.reportReleased();
    expect(reported).toEqual([]);
    return { slots, reported, taken, state };
  }

  test('are reported as soon as it is back: until then others would find none free', async () => {
    const { slots, reported, taken, state } = await leftWhileAway(2);
    await slots.renew();
    state.isUp = true;
    await slots.reportReleased();
    await slots.reportReleased();
    expect(reported).toEqual([taken]);
  });

  test('are forgotten when they have ended by themselves, after 30 seconds', async () => {
    const { slots, reported, state } = await leftWhileAway(2);
    for (let seconds = 0; seconds <= 30; seconds += 10) await slots.renew();
    state.isUp = true;
    await slots.reportReleased();
    expect(reported).toEqual([]);
  });

  test('are remembered for 30 seconds of each outage', async () => {
    const { slots, reported, state } = await leftWhileAway(2);
    for (let seconds = 0; seconds <= 30; seconds += 10) await slots.renew();
    state.isUp = true;
    await slots.renew();
    const slot = (await slots.enter('acme', 2)) ?? '';
    state.isUp = false;
    slots.leave('acme', slot);
    await slots.renew();
    state.isUp = true;
    await slots.reportReleased();
    expect(reported).toEqual([[slot]]);
  });

  test('are remembered up to the number that one message takes', async () => {
    const { slots, reported, taken, state } = await leftWhileAway(501);
    state.isUp = true;
    await slots.reportReleased();
    expect(reported).toEqual([taken.slice(0, 500)]);
  });

  test('cost one look at the shared memory for all tenants', async () => {
    const { slots, state } = await leftWhileAway(1);
    for (let tenant = 0; tenant < 100; tenant++) {
      slots.leave(`tenant-${tenant}`, (await slots.enter(`tenant-${tenant}`, 2)) ?? '');
    }
    state.requests = 0;
    await slots.reportReleased();
    expect(state.requests).toBe(1);
  });
});
