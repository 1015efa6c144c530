import { Database } from 'bun:sqlite';
import { expect, spyOn, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { openWhenReachable } from './open-late.ts';

/** Nothing listens there: port 1 is nobody's. */
const nowhere = 'postgres://tollgate@127.0.0.1:1/tollgate';
const patienceMs = 60_000;

/** A promise whose handlers can be counted: each stays in memory until it is settled. */
class Awaited<Value> extends Promise<Value> {}

test('waiting adds one handler to the stop, however long it takes, and ends with it', async () => {
  const waits = spyOn(Awaited.prototype, 'then');
  let stop = () => {};
  const stopped = new Awaited<void>((resolve) => {
    stop = resolve;
  });
  const reasons: string[] = [];
  const opening = openWhenReachable(nowhere, {
    patienceMs,
    stopped,
    onAway(why) {
      reasons.push(why);
      if (reasons.length === 4) stop();
    },
  });
  expect(await opening).toBeUndefined();
  expect(reasons).toHaveLength(4);
  expect(waits).toHaveBeenCalledTimes(1);
});

test('a stop that came before the first attempt ends the wait', async () => {
  const onAway = () => {};
  const stopped = Promise.resolve();
  expect(await openWhenReachable(nowhere, { patienceMs, stopped, onAway })).toBeUndefined();
});

test('a process that cannot have its port does not wait for the tables', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-late-'));
  const path = join(folder, 'tollgate.db');
  // As another process that has just begun with the migrations.
  const other = new Database(path);
  other.run('pragma journal_mode = wal');
  other.run('begin immediate');
  const taken = new Error('The port is in use.');
  const opening = openWhenReachable(`sqlite:${path}`, {
    patienceMs,
    stopped: new Promise(() => {}),
    onAway() {
      throw taken;
    },
  });
  expect(await failureOf(opening)).toBe(taken);
  other.close();
  rmSync(folder, { recursive: true });
}, 60_000);

test('a file that another process locks for long is waited for, and that is told', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-late-'));
  const path = join(folder, 'tollgate.db');
  // As one that has been at the migrations for longer than SQLite waits for a lock.
  const other = new Database(path);
  other.run('pragma journal_mode = wal');
  other.run('begin immediate');
  const locked = `The database file ${path} cannot be used: another process keeps it locked.`;
  const reasons: string[] = [];
  const store = await openWhenReachable(`sqlite:${path}`, {
    patienceMs,
    stopped: new Promise(() => {}),
    onAway(why) {
      reasons.push(why);
      if (why === locked) other.close();
    },
  });
  expect(reasons).toContain(locked);
  expect(await store?.directory.version()).toBe(0);
  await store?.database.close();
  rmSync(folder, { recursive: true });
}, 60_000);
