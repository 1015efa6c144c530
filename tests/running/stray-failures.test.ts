/** A failure that nobody waits for: of a timer, of a promise, or of the log itself. */
import { expect, test } from 'bun:test';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { killAtExit } from '../support/gateway/cleanup-shell.ts';
import { newFolder, startGateway } from '../support/gateway.ts';

const program = new URL('../../src/main.ts', import.meta.url).pathname;

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

test('a log whose disk is full is written no more, and the gateway goes on', async () => {
  const key = `sk-tg-${'a'.repeat(40)}`;
  const full = openSync('/dev/full', 'w');
  const child = Bun.spawn([process.execPath, program, 'serve', '--port', '0'], {
    cwd: newFolder(),
    env: { PATH: process.env.PATH ?? '', TOLLGATE_BOOTSTRAP_API_KEY: key },
    stdio: ['ignore', 'pipe', full],
  });
  killAtExit(child.pid, child.exited);
  closeSync(full);
  let greeting = '';
  const decoder = new TextDecoder();
  for await (const part of child.stdout) {
    greeting += decoder.decode(part);
    if (greeting.includes('/dashboard')) break;
  }
  const [address] = /http:\/\/\S+/.exec(greeting) ?? [];
  const ask = () =>
    fetch(`${address}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: '{"model":"demo/chat","messages":[{"role":"user","content":"Is anybody there?"}]}',
      signal: AbortSignal.timeout(10_000),
    });
  // Each writes a line, and the failure of one must not be another line.
  for (let i = 0; i < 5; i += 1) {
    expect((await ask()).status).toBe(200);
    await Bun.sleep(50);
  }
  child.kill('SIGTERM');
  const late = Bun.sleep(10_000).then(() => 'still busy');
  expect(await Promise.race([child.exited, late])).toBe(0);
}, 120_000);
