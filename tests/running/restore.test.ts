/** Restores a backup of the embedded database, made under load as docs/deployment.md describes. */
import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  chatAnswer,
  type FakeUpstream,
  startFakeUpstream,
  words,
} from '../support/fake-upstream.ts';
import { type Gateway, newFolder, run, startGateway } from '../support/gateway.ts';
import { Traffic } from '../support/money/traffic.ts';
import { within } from '../support/wait-until.ts';

const testMs = 180_000;
const price = { prompt: '2', completion: '3' };
const body = { model: 'test/plain', messages: [{ role: 'user', content: 'Hello!' }] };

let upstream: FakeUpstream;
beforeAll(() => {
  upstream = startFakeUpstream();
  upstream.script('chat', chatAnswer(words(30), { chunkDelayMs: 10 }));
  upstream.script('plain', chatAnswer(words(7)));
});
afterAll(() => upstream.stop());

const options = () => ({
  upstreams: {
    fake: { url: upstream.url, models: { 'test/chat': price, 'test/plain': price } },
  },
  config: { limits: { requests_per_minute: 1_000_000, concurrent_requests: 10_000 } },
});

const fileIn = (folder: string) => join(folder, 'tollgate.db');

/**
 * Runs the statement from that page, which copies a snapshot while the gateway keeps writing. The
 * `.backup` command of `sqlite3` would start over with each write and never finish a large file.
 */
function backUp({ dataDir }: Gateway, copy: string): void {
  const page = readFileSync(join(import.meta.dir, '../../docs/deployment.md'), 'utf8');
  const [, statement = ''] = /sqlite3 data\/tollgate\.db "([^"]+)"/.exec(page) ?? [];
  using database = new Database(fileIn(dataDir), { readonly: true });
  database.run(statement.replace('copy.db', copy));
}

/** Makes a backup while the gateway is answering requests, before and after the snapshot. */
async function backUpUnderLoad(gateway: Gateway, copy: string): Promise<Traffic> {
  const traffic = new Traffic();
  const sending = traffic.send(gateway, 6, 'test/chat', 'test/plain');
  await traffic.untilMore(20);
  backUp(gateway, copy);
  await traffic.untilMore(20);
  traffic.stop();
  await sending;
  return traffic;
}

async function expectConsistentLedger(dataDir: string): Promise<void> {
  const { exitCode, stdout, stderr } = await run(['ledger', 'verify'], { dataDir });
  expect([exitCode, stderr]).toEqual([0, '']);
  expect(stdout).toStartWith('The ledger is consistent');
}

test(
  'a backup made under load has a consistent ledger, and a gateway can start on it',
  async () => {
    const folder = join(newFolder(), 'restored');
    mkdirSync(folder);
    const gateway = await startGateway(options());
    await gateway.manage('PUT', '/api/v1/byok/fake', { api_key: 'sk-own-0123456789' });
    await backUpUnderLoad(gateway, fileIn(folder));
    const before = await gateway.balance();
    await gateway.stop();
    cpSync(join(gateway.dataDir, 'secret.key'), join(folder, 'secret.key'));
    await expectConsistentLedger(folder);
    {
      await using restored = await gateway.another({ dataDir: folder });
      expect((await restored.chat(body)).status).toBe(200);
      expect(upstream.requests.at(-1)?.headers.authorization).toBe('Bearer sk-own-0123456789');
      // Requests that ended after the backup are not in it.
      expect(await restored.balance()).toBeGreaterThan(before);
    }
    await expectConsistentLedger(folder);
  },
  testMs,
);

test(
  'the charges of a journal are booked once in an older backup',
  async () => {
    const folder = join(newFolder(), 'restored');
    mkdirSync(folder);
    const gateway = await startGateway(options());
    const traffic = new Traffic();
    const sending = traffic.send(gateway, 6, 'test/chat', 'test/plain');
    await traffic.untilMore(20);
    backUp(gateway, fileIn(folder));
    await traffic.untilMore(10);
    await gateway.kill9();
    await sending;
    for (const name of ['secret.key', 'journal']) {
      cpSync(join(gateway.dataDir, name), join(folder, name), { recursive: true });
    }
    const first = await gateway.another({ dataDir: folder });
    await first.untilLogged('journal_replayed');
    const balance = await first.balance();
    await first.stop();
    await expectConsistentLedger(folder);
    await using second = await gateway.another({ dataDir: folder });
    expect(second.log().map(({ event }) => event)).not.toContain('journal_replayed');
    expect(await second.balance()).toBe(balance);
  },
  testMs,
);

test(
  'startup with the journal of another database fails, and startup on that database books it',
  async () => {
    const folder = newFolder();
    const copy = join(newFolder(), 'copy.db');
    const gateway = await startGateway(options());
    backUp(gateway, copy);
    expect((await gateway.chat(body)).status).toBe(200);
    const balance = await gateway.balance();
    await gateway.kill9();
    for (const name of ['secret.key', 'journal']) {
      cpSync(join(gateway.dataDir, name), join(folder, name), { recursive: true });
    }
    // A first start would write off all charges of the journal, because its wallets don't exist.
    const journal = join(folder, 'journal');
    const rejected = await run(['serve', '--port', '0'], { ...options(), dataDir: folder });
    expect([rejected.exitCode, rejected.stdout, rejected.stderr]).toEqual([
      1,
      '',
      `The journal folder ${journal} contains requests from another database. Start once with that database, or ` +
        'move the folder elsewhere. If this database is an older copy of the other one, delete ' +
        `${journal}/ledger-id.\n`,
    ]);
    for (const suffix of ['', '-wal', '-shm']) rmSync(fileIn(folder) + suffix, { force: true });
    cpSync(copy, fileIn(folder));
    await using restored = await gateway.another({ dataDir: folder });
    expect(await restored.balance()).toBe(balance);
  },
  testMs,
);

test(
  'a gateway whose database file is replaced keeps its charges in the journal for the next start',
  async () => {
    const gateway = await startGateway(options());
    const folder = join(newFolder(), 'restored');
    mkdirSync(folder);
    // Take a lease before the store is replaced.
    expect((await gateway.chat(body)).status).toBe(200);
    backUp(gateway, fileIn(folder));
    const balanceInCopy = await gateway.balance();
    cpSync(fileIn(folder), join(folder, 'copy.db'));
    renameSync(join(folder, 'copy.db'), fileIn(gateway.dataDir));
    expect((await gateway.chat(body)).status).toBe(200);
    expect((await gateway.call('GET', '/readyz')).status).toBe(503);
    await gateway.untilLogged('booking_failed');
    gateway.signal('SIGTERM');
    const { exitCode, stderr } = await within(gateway.finished, 'the gateway to exit', 60_000);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('are in the journal and will be committed at the next startup.');

    for (const name of ['secret.key', 'journal']) {
      cpSync(join(gateway.dataDir, name), join(folder, name), { recursive: true });
    }
    {
      await using restored = await gateway.another({ dataDir: folder });
      const { prompt, completion } = upstream.requests.at(-1)?.tokens ?? {
        prompt: 0,
        completion: 0,
      };
      expect(balanceInCopy - (await restored.balance())).toBe(2 * prompt + 3 * completion);
    }
    await expectConsistentLedger(folder);
  },
  testMs,
);
