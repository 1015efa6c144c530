/** Errors without a handler: from a timer, from a promise, or from writing the log. */
import { expect, test } from 'bun:test';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { killAtExit } from '../support/gateway/cleanup-shell.ts';
import { newFolder, startGateway } from '../support/gateway.ts';
import { waitUntil, within } from '../support/wait-until.ts';

const program = new URL('../../src/main.ts', import.meta.url).pathname;

test('uncaught errors are logged, and the gateway keeps running', async () => {
  const script = join(newFolder(), 'uncaught.js');
  writeFileSync(
    script,
    `process.on('SIGUSR2', () => {
      setTimeout(() => { throw new Error('thrown by a timer'); }, 0);
      setTimeout(() => { void Promise.reject(new Error('unhandled rejection')); }, 0);
    });`,
  );
  const gateway = await startGateway({ env: { BUN_OPTIONS: `--preload ${script}` } });
  gateway.signal('SIGUSR2');
  await gateway.untilLogged('unexpected_failure');
  const failures = () => gateway.log().filter(({ event }) => event === 'unexpected_failure');
  await waitUntil(() => failures().length >= 2);
  const reasons = failures().map(({ reason }) => reason);
  expect(reasons).toEqual(['thrown by a timer', 'unhandled rejection']);
  expect((await gateway.call('GET', '/readyz')).status).toBe(200);
  gateway.signal('SIGTERM');
  expect((await within(gateway.finished, 'the gateway to exit', 60_000)).exitCode).toBe(0);
}, 120_000);

test('a full disk for the log does not stop the gateway', async () => {
  const key = `sk-tg-${'a'.repeat(40)}`;
  const full = openSync('/dev/full', 'w');
  const child = Bun.spawn([process.execPath, program, 'serve', '--port', '0'], {
    cwd: newFolder(),
    env: { PATH: process.env.PATH ?? '', TOLLGATE_BOOTSTRAP_API_KEY: key },
    stdio: ['ignore', 'pipe', full],
  });
  killAtExit(child.pid, child.exited);
  closeSync(full);
  let banner = '';
  const decoder = new TextDecoder();
  for await (const part of child.stdout) {
    banner += decoder.decode(part);
    if (banner.includes('/dashboard')) break;
  }
  const [address] = /http:\/\/\S+/.exec(banner) ?? [];
  const chat = () =>
    fetch(`${address}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: '{"model":"demo/chat","messages":[{"role":"user","content":"Is anybody there?"}]}',
      signal: AbortSignal.timeout(10_000),
    });
  // Each request writes a line. A failed write must not log another line.
  for (let i = 0; i < 5; i += 1) {
    expect((await chat()).status).toBe(200);
    await Bun.sleep(50);
  }
  child.kill('SIGTERM');
  const timeout = Bun.sleep(10_000).then(() => 'still running');
  expect(await Promise.race([child.exited, timeout])).toBe(0);
}, 120_000);
