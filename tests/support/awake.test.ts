/** The clock of tests must itself tell a delay from a stop. */
import { expect, test } from 'bun:test';
import { Awake } from './awake.ts';

test('a wait counts, and the time in which the process stood still does not', async () => {
  using awake = new Awake();
  const startedAt = performance.now();
  for (let turn = 0; turn < 10; turn += 1) await Bun.sleep(10);
  expect(awake.ms).toBeWithin(50, performance.now() - startedAt + 1);
  const before = awake.ms;
  Bun.sleepSync(1_000);
  expect(awake.ms - before).toBeWithin(0, 500);
});
