/**
 * The disk under the data directory fills up under load and is freed again. It is a real one, as
 * small as a test can fill. Mounting it takes the rights of root, which an ordinary user has in a
 * namespace of its own: there the file runs itself once more.
 */
import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { closeSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { parseJson } from '../../src/core/json.ts';
import { Segment } from '../../src/money/settle/journal-files.ts';
import {
  type FakeUpstreamProcess,
  gated,
  chatAnswer,
  startFakeUpstreamProcess,
  words,
} from '../support/fake-upstream.ts';
import { type ChatStream, type Gateway, newFolder, startGateway } from '../support/gateway.ts';
import { credits, expectBooks, price } from '../support/money/bills.ts';
import { Traffic } from '../support/money/traffic.ts';

const testMs = 120_000;

let upstream: FakeUpstreamProcess;
let disk = '';

if (process.getuid?.() === 0) {
  beforeAll(mountDisk);
  afterAll(unmountDisk);
  test(
    'new work gets 503, nothing breaks, and freed space is enough to go on with right books',
    fillsUpUnderLoad,
    testMs,
  );
  test('a line that fits only in part leaves nothing that could tear the next one', tearsNoLine);
} else {
  test(
    'a full disk, in a namespace where this user may mount one',
    () => {
      const mine = ['unshare', '--user', '--map-root-user', '--mount'];
      const again = [process.execPath, 'test', './tests/running/disk-full.test.ts'];
      const cwd = join(import.meta.dir, '../..');
      const { exitCode, stderr } = Bun.spawnSync([...mine, ...again], { cwd });
      const told = stderr.toString();
      if (exitCode !== 0) throw new Error(`It needs root, or user namespaces: ${told}`);
      expect(told).toContain(' 2 pass');
    },
    testMs,
  );
}

async function mountDisk(): Promise<void> {
  upstream = await startFakeUpstreamProcess();
  await upstream.script('chat', chatAnswer(words(30), { chunkDelayMs: 20 }));
  await upstream.script('plain', chatAnswer(words(7)));
  await upstream.script('held', gated('full', 3, chatAnswer(words(30))));
  disk = newFolder();
  // SQLite's log of changes alone takes four megabytes before it starts over.
  const mounting = ['mount', '-t', 'tmpfs', '-o', 'size=16m', 'tollgate-test', disk];
  const { exitCode, stderr } = Bun.spawnSync(mounting);
  if (exitCode !== 0) throw new Error(`A small disk cannot be mounted (root can): ${stderr}`);
}

async function unmountDisk(): Promise<void> {
  Bun.spawnSync(['umount', '--lazy', disk]);
  await upstream.stop();
}

/** Takes every free byte, and goes on taking while others free some. */
function fillUp(path: string): { free(): void } {
  const file = openSync(path, 'a');
  const take = () => {
    for (const bytes of [1024 * 1024, 4096, 1]) {
      const block = Buffer.alloc(bytes);
      try {
        while (writeSync(file, block) === bytes);
      } catch {
        // Full for blocks of this size.
      }
    }
  };
  take();
  const timer = setInterval(take, 20);
  return {
    free() {
      clearInterval(timer);
      closeSync(file);
      rmSync(path);
    },
  };
}

async function untilServed(gateway: Gateway): Promise<void> {
  const messages = [{ role: 'user', content: 'Is there room again?' }];
  for (;;) {
    const { status } = await gateway.chat({ model: 'test/plain', user: 'probe', messages });
    if (status === 200) return;
    await Bun.sleep(100);
  }
}

async function fillsUpUnderLoad(): Promise<void> {
  const gateway = await startGateway({
    dataDir: join(disk, 'data'),
    upstreams: {
      fake: {
        url: upstream.url,
        models: { 'test/chat': price, 'test/plain': price, 'test/held': price },
      },
    },
    config: { limits: { requests_per_minute: 1_000_000, concurrent_requests: 10_000 } },
    env: { TOLLGATE_BOOTSTRAP_CREDITS: String(credits) },
  });
  const traffic = new Traffic();
  const sending = traffic.send(gateway, 8, 'test/chat', 'test/plain');
  await traffic.untilMore(20);
  const running = await Promise.all(Array.from({ length: 12 }, () => runningStream(gateway)));
  const full = fillUp(join(disk, 'ballast'));
  while (traffic.refusals.length === 0) await Bun.sleep(10);
  await upstream.open('full');
  const [ends] = await Promise.all([Promise.all(running.map(lastOf)), Bun.sleep(8_000)]);
  expect((await gateway.call('GET', '/healthz')).status).toBe(200);
  const probe = await gateway.call('GET', '/readyz');
  expect([probe.status, probe.body.reason]).toEqual([
    503,
    'The store is unavailable: The journal cannot be written.',
  ]);
  full.free();
  await untilServed(gateway);
  await traffic.untilMore(20);
  traffic.stop();
  await sending;

  const { refusals, broken } = traffic;
  expect(refusals.length).toBeGreaterThan(10);
  const kinds = new Set(refusals.map(({ status, type }) => `${status} ${type}`));
  expect([...kinds]).toEqual(['503 service_unavailable']);
  // Streams that were under way when the disk filled up end with a sentence, not with a cut.
  const sentence = { type: 'service_unavailable', code: 503 };
  // The last page of the journal may still have room for a few of their lines.
  const cut = ends.filter((end) => end !== undefined);
  expect(cut.length).toBeGreaterThan(0);
  expect(cut).toMatchObject(cut.map(() => ({ error: sentence })));
  expect(broken).toMatchObject(broken.map(() => sentence));
  await gateway.stop();
  await expectSound(gateway, traffic);
}

async function runningStream(gateway: Gateway): Promise<ChatStream> {
  const messages = [{ role: 'user', content: 'Take your time.' }];
  const stream = await gateway.stream({ model: 'test/held', user: 'held', messages });
  await stream.read(1);
  return stream;
}

/** Undefined for one that came to its `[DONE]`. */
async function lastOf(stream: ChatStream): Promise<unknown> {
  let last: unknown;
  for await (const data of stream) last = parseJson(data);
  return last;
}

function tearsNoLine(): void {
  const path = join(disk, 'segment.jsonl');
  const segment = new Segment(path, false);
  segment.write('{"first":1}\n');
  const full = fillUp(join(disk, 'ballast'));
  // The page with the first line has room for a part of this one.
  expect(() => segment.write(`{"long":"${'x'.repeat(100_000)}"}\n`)).toThrow();
  expect(readFileSync(path, 'utf8')).toBe('{"first":1}\n');
  full.free();
  segment.write('{"second":2}\n');
  expect(readFileSync(path, 'utf8')).toBe('{"first":1}\n{"second":2}\n');
  segment.remove();
}

async function expectSound({ dataDir }: Gateway, traffic: Traffic): Promise<void> {
  const path = join(dataDir, 'tollgate.db');
  using file = new Database(path);
  expect(file.query('pragma integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
  await expectBooks(`sqlite:${path}`, upstream, traffic);
}
