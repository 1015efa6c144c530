/** A failure that nobody waits for: thrown by a timer, or a promise that nobody holds. */
import { expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newFolder, startGateway } from '../support/gateway.ts';

test('is told in the log, and the gateway goes on', async () => {
  const stray = join(newFolder(), 'stray.js');
  writeFileSync(
    stray,
    `process.on('SIGUSR2', () => {
      setTimeout(() => { throw new Error('thrown by a timer'); }, 0);
      setTimeout(() => { void Promise.reject(new Error('held by nobody')); }, 0);
    });`,
  );
  const gateway = await startGateway({ env: { BUN_OPTIONS: `--preload ${stray}` } });
  gateway.signal('SIGUSR2');
  await gateway.untilLogged('unexpected_failure');
  const told = () => gateway.log().filter(({ event }) => event === 'unexpected_failure');
  while (told().length < 2) await Bun.sleep(10);
  expect(told().map(({ reason }) => reason)).toEqual(['thrown by a timer', 'held by nobody']);
  expect((await gateway.call('GET', '/readyz')).status).toBe(200);
  gateway.signal('SIGTERM');
  expect((await gateway.finished).exitCode).toBe(0);
}, 120_000);
