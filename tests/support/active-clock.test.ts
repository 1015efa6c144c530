import { expect, test } from 'bun:test';
import { ActiveClock } from './active-clock.ts';

test('ActiveClock counts waits, but not the time in which the process is blocked', async () => {
  using activeClock = new ActiveClock();
  const startedAt = performance.now();
  for (let turn = 0; turn < 10; turn += 1) await Bun.sleep(10);
  expect(activeClock.ms).toBeWithin(50, performance.now() - startedAt + 1);
  const before = activeClock.ms;
  Bun.sleepSync(1_000);
  expect(activeClock.ms - before).toBeWithin(0, 500);
});
