/**
 * The data directory's disk fills up under load and then has space again. The disk is a real, small
 * mount. Mounting requires root. Without root, this file runs itself again in a user namespace.
 */

import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { closeSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Glob } from 'bun';
import { Segment } from '../../src/money/settle/journal-files.ts';
import {
  chatAnswer,
  type FakeUpstreamProcess,
  gated,
  startFakeUpstreamProcess,
  words,
} from '../support/fake-upstream.ts';
import { type ChatStream, type Gateway, newFolder, startGateway } from '../support/gateway.ts';
import { credits, expectCorrectCharges, price } from '../support/money/expected-charges.ts';
import { Traffic } from '../support/money/traffic.ts';
import { waitUntil } from '../support/wait-until.ts';

const testMs = 120_000;

let upstream: FakeUpstreamProcess;
let disk = '';

if (process.getuid?.() === 0) {
  beforeAll(mountDisk);
  afterAll(unmountDisk);
  test(
    'a full disk causes only 503 errors, and freed space restores service with correct charges',
    fillDiskUnderLoad,
    testMs,
  );
  test('a journal line that only partly fits is removed completely', writePartialLine);
} else {
  test(
    'the full-disk tests pass in a user namespace that may mount a disk',
    () => {
      const namespace = ['unshare', '--user', '--map-root-user', '--mount'];
      const rerun = [process.execPath, 'test', './tests/running/disk-full.test.ts'];
      const cwd = join(import.meta.dir, '../..');
      const { exitCode, stderr } = Bun.spawnSync([...namespace, ...rerun], { cwd });
      const output = stderr.toString();
      if (exitCode !== 0) throw new Error(`This test needs root or user namespaces: ${output}`);
      expect(output).toContain(' 2 pass');
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
  // SQLite's write-ahead log alone grows to 4 MB before it is reused.
  const mount = ['mount', '-t', 'tmpfs', '-o', 'size=16m', 'tollgate-test', disk];
  const { exitCode, stderr } = Bun.spawnSync(mount);
  if (exitCode !== 0) throw new Error(`Mounting a small disk failed; it needs root: ${stderr}`);
}

async function unmountDisk(): Promise<void> {
  Bun.spawnSync(['umount', '--lazy', disk]);
  await upstream.stop();
}

/** Fills the disk, and fills it again whenever other files shrink, until `isDone`. */
function fillUp(path: string, isDone = () => false): { free(): void } {
  const file = openSync(path, 'a');
  const fill = () => {
    for (const bytes of [1024 * 1024, 4096, 1]) {
      const block = Buffer.alloc(bytes);
      try {
        while (!isDone() && writeSync(file, block) === bytes);
      } catch {
        // No space is left for a block of this size.
      }
    }
  };
  fill();
  const timer = setInterval(fill, 20);
  return {
    free() {
      clearInterval(timer);
      closeSync(file);
      rmSync(path);
    },
  };
}

async function untilServed(gateway: Gateway): Promise<void> {
  const messages = [{ role: 'user', content: 'Is there free space?' }];
  const probe = { model: 'test/plain', user: 'probe', messages };
  await waitUntil(async () => (await gateway.chat(probe)).status === 200, { everyMs: 100 });
}

async function fillDiskUnderLoad(): Promise<void> {
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
  // Other programs leave the space that the journal has allocated in advance.
  const journals = new Glob('data/journal/*/reserve');
  const isReserveSpent = () => [...journals.scanSync(disk)].length === 0;
  const ballast = fillUp(join(disk, 'ballast'), isReserveSpent);
  await waitUntil(() => traffic.rejections.length > 0);
  await upstream.open('full');
  // Reading a stream that breaks throws.
  await Promise.all([...running.map(readToEnd), Bun.sleep(8_000)]);
  expect((await gateway.call('GET', '/healthz')).status).toBe(200);
  const probe = await gateway.call('GET', '/readyz');
  expect([probe.status, probe.body.reason]).toEqual([
    503,
    "The store is unavailable: The journal can't be written.",
  ]);
  ballast.free();
  await untilServed(gateway);
  await traffic.untilMore(20);
  traffic.stop();
  await sending;

  const { rejections, broken } = traffic;
  expect(rejections.length).toBeGreaterThan(10);
  const kinds = new Set(rejections.map(({ status, type }) => `${status} ${type}`));
  expect([...kinds]).toEqual(['503 service_unavailable']);
  expect(broken).toEqual([]);
  await gateway.stop();
  await expectIntactLedger(gateway, traffic);
}

async function runningStream(gateway: Gateway): Promise<ChatStream> {
  const messages = [{ role: 'user', content: 'Take your time.' }];
  const stream = await gateway.stream({ model: 'test/held', user: 'held', messages });
  await stream.read(1);
  return stream;
}

async function readToEnd(stream: ChatStream): Promise<void> {
  let last: unknown;
  for await (const data of stream) last = data;
  expect(last).toBe('[DONE]');
}

function writePartialLine(): void {
  const path = join(disk, 'segment.jsonl');
  const segment = new Segment(path, false);
  segment.write('{"first":1}\n');
  const ballast = fillUp(join(disk, 'ballast'));
  // The page with the first line has space for the beginning of this line.
  expect(() => segment.write(`{"long":"${'x'.repeat(100_000)}"}\n`)).toThrow();
  expect(readFileSync(path, 'utf8')).toBe('{"first":1}\n');
  ballast.free();
  segment.write('{"second":2}\n');
  expect(readFileSync(path, 'utf8')).toBe('{"first":1}\n{"second":2}\n');
  segment.remove();
}

async function expectIntactLedger({ dataDir }: Gateway, traffic: Traffic): Promise<void> {
  const path = join(dataDir, 'tollgate.db');
  using file = new Database(path);
  expect(file.query('pragma integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
  await expectCorrectCharges(`sqlite:${path}`, upstream, traffic);
}
