import { describe, expect, test } from 'bun:test';
import { SharedSlots } from './concurrency.ts';
import type { SharedCounts } from './shared-counts.ts';

/** A shared store that admits everyone. Tests replace single methods. */
const sharedStub: SharedCounts = {
  isUp: true,
  take: async () => undefined,
  addTokens: async () => undefined,
  acquire: async () => ({ isFree: true, running: 1 }),
  release: async () => undefined,
  renew: async () => undefined,
};

test('SharedSlots periodically renews slots in use and reports released ones', async () => {
  const renewed: (readonly string[])[] = [];
  const reported: (readonly string[])[] = [];
  const shared: SharedCounts = {
    ...sharedStub,
    release: async (_, slots) => void reported.push(slots),
    renew: async (_, slots) => void renewed.push(slots),
  };
  const slots = new SharedSlots(shared, 'here');
  const [active, released] = [await slots.enter('acme', 100), await slots.enter('acme', 100)];
  slots.leave('acme', released ?? '');
  // No one is waiting for the slot, so it is reported with the next request.
  expect(reported).toEqual([]);
  for (const { run } of slots.periodicTasks()) await run();
  expect([renewed, reported]).toEqual([[[active ?? '']], [[released ?? '']]]);
});

test('SharedSlots reports released slots once they fill a message', async () => {
  const reported: (readonly string[])[] = [];
  const leave: SharedCounts['release'] = async (_, released) => void reported.push(released);
  const slots = new SharedSlots({ ...sharedStub, release: leave }, 'here');
  const acquired: string[] = [];
  while (acquired.length < 501) acquired.push((await slots.enter('acme', 10_000)) ?? '');
  for (const slot of acquired.slice(0, 499)) slots.leave('acme', slot);
  expect(reported).toEqual([]);
  slots.leave('acme', acquired[499] ?? '');
  expect(reported).toEqual([acquired.slice(0, 500)]);
});

describe('SharedSlots with slots released while Redis is unreachable', () => {
  async function releaseDuringOutage(count: number) {
    const reported: (readonly string[])[] = [];
    const state = { isUp: true, requests: 0 };
    const slots = new SharedSlots(
      {
        ...sharedStub,
        get isUp() {
          state.requests += 1;
          return state.isUp;
        },
        acquire: async (_, slot) => ({ isFree: true, running: Number(slot.split(':')[1]) }),
        release: async (_, released) => void reported.push(released),
      },
      'here',
    );
    const acquired: string[] = [];
    while (acquired.length < count) acquired.push((await slots.enter('acme', 2)) ?? '');
    state.isUp = false;
    for (const slot of acquired) slots.leave('acme', slot);
    await slots.reportReleased();
    expect(reported).toEqual([]);
    return { slots, reported, acquired, state };
  }

  test('reports them as soon as Redis is reachable again', async () => {
    const { slots, reported, acquired, state } = await releaseDuringOutage(2);
    await slots.renew();
    state.isUp = true;
    await slots.reportReleased();
    await slots.reportReleased();
    expect(reported).toEqual([acquired]);
  });

  test('forgets them after 30 seconds, when they have expired', async () => {
    const { slots, reported, state } = await releaseDuringOutage(2);
    for (let seconds = 0; seconds <= 30; seconds += 10) await slots.renew();
    state.isUp = true;
    await slots.reportReleased();
    expect(reported).toEqual([]);
  });

  test('starts the 30 seconds again with each outage', async () => {
    const { slots, reported, state } = await releaseDuringOutage(2);
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

  test('remembers only as many as fit in one message', async () => {
    const { slots, reported, acquired, state } = await releaseDuringOutage(501);
    state.isUp = true;
    await slots.reportReleased();
    expect(reported).toEqual([acquired.slice(0, 500)]);
  });

  test('checks once for all tenants whether Redis is reachable', async () => {
    const { slots, state } = await releaseDuringOutage(1);
    for (let tenant = 0; tenant < 100; tenant++) {
      slots.leave(`tenant-${tenant}`, (await slots.enter(`tenant-${tenant}`, 2)) ?? '');
    }
    state.requests = 0;
    await slots.reportReleased();
    expect(state.requests).toBe(1);
  });
});
