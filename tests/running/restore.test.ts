/** A copy of the embedded database, made under load and put back as docs/deployment.md says. */
import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  type FakeUpstream,
  chatAnswer,
  startFakeUpstream,
  words,
} from '../support/fake-upstream.ts';
import { type Gateway, newFolder, run, startGateway } from '../support/gateway.ts';
import { Traffic } from '../support/money/traffic.ts';

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
 * By the words of the page, as a statement: it reads one moment, while others go on changing the
 * file. `.backup` of `sqlite3` begins anew with each of their changes, and a large file never ends.
 */
function backUp({ dataDir }: Gateway, copy: string): void {
  const page = readFileSync(join(import.meta.dir, '../../docs/deployment.md'), 'utf8');
  const [, statement = ''] = /sqlite3 data\/tollgate\.db "([^"]+)"/.exec(page) ?? [];
  using database = new Database(fileIn(dataDir), { readonly: true });
  database.run(statement.replace('copy.db', copy));
}

/** Of a gateway that has answered something before and something after its copy was made. */
async function copiedUnderLoad(gateway: Gateway, copy: string): Promise<Traffic> {
  const traffic = new Traffic();
  const sending = traffic.send(gateway, 6, 'test/chat', 'test/plain');
  await traffic.untilMore(20);
  backUp(gateway, copy);
  await traffic.untilMore(20);
  traffic.stop();
  await sending;
  return traffic;
}

async function expectRightBooks(dataDir: string): Promise<void> {
  const { exitCode, stdout, stderr } = await run(['ledger', 'verify'], { dataDir });
  expect([exitCode, stderr]).toEqual([0, '']);
  expect(stdout).toStartWith('The books are right');
}

test(
  'a copy made under load and put into an empty folder has right books and serves',
  async () => {
    const folder = join(newFolder(), 'restored');
    mkdirSync(folder);
    const gateway = await startGateway(options());
    await gateway.manage('PUT', '/api/v1/byok/fake', { api_key: 'sk-own-0123456789' });
    await copiedUnderLoad(gateway, fileIn(folder));
    const before = await gateway.balance();
    await gateway.stop();
    cpSync(join(gateway.dataDir, 'secret.key'), join(folder, 'secret.key'));
    await expectRightBooks(folder);
    {
      await using restored = await gateway.another({ dataDir: folder });
      expect((await restored.chat(body)).status).toBe(200);
      expect(upstream.requests.at(-1)?.headers.authorization).toBe('Bearer sk-own-0123456789');
      // What ended after the copy is not in it.
      expect(await restored.balance()).toBeGreaterThan(before);
    }
    await expectRightBooks(folder);
  },
  testMs,
);

test(
  'a journal beside a copy that is older is booked, once',
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
    await expectRightBooks(folder);
    await using second = await gateway.another({ dataDir: folder });
    expect(second.log().map(({ event }) => event)).not.toContain('journal_replayed');
    expect(await second.balance()).toBe(balance);
  },
  testMs,
);

test(
  'a journal is refused by other books, and waits for its own',
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
    // A first start there: without wallets, all charges of the journal would be written off.
    const journal = join(folder, 'journal');
    const refused = await run(['serve', '--port', '0'], { ...options(), dataDir: folder });
    expect([refused.exitCode, refused.stdout, refused.stderr]).toEqual([
      1,
      '',
      `The journal ${journal} has requests of another database. Start once with that database, or ` +
        `move the folder away; where this is an older copy of it, remove ${journal}/books.\n`,
    ]);
    for (const end of ['', '-wal', '-shm']) rmSync(fileIn(folder) + end, { force: true });
    cpSync(copy, fileIn(folder));
    await using restored = await gateway.another({ dataDir: folder });
    expect(await restored.balance()).toBe(balance);
  },
  testMs,
);

test(
  'a gateway whose file is replaced books nothing there; its journal has it for the next start',
  async () => {
    const gateway = await startGateway(options());
    const folder = join(newFolder(), 'restored');
    mkdirSync(folder);
    // So that something is on lease when the store is gone.
    expect((await gateway.chat(body)).status).toBe(200);
    backUp(gateway, fileIn(folder));
    const copied = await gateway.balance();
    cpSync(fileIn(folder), join(folder, 'copy.db'));
    renameSync(join(folder, 'copy.db'), fileIn(gateway.dataDir));
    expect((await gateway.chat(body)).status).toBe(200);
    expect((await gateway.call('GET', '/readyz')).status).toBe(503);
    await gateway.untilLogged('drain_failed');
    gateway.signal('SIGTERM');
    const { exitCode, stderr } = await gateway.finished;
    expect(exitCode).toBe(1);
    expect(stderr).toContain('is in the journal, for the next start here to book');

    for (const name of ['secret.key', 'journal']) {
      cpSync(join(gateway.dataDir, name), join(folder, name), { recursive: true });
    }
    {
      await using restored = await gateway.another({ dataDir: folder });
      const { prompt, completion } = upstream.requests.at(-1)?.tokens ?? {
        prompt: 0,
        completion: 0,
      };
      expect(copied - (await restored.balance())).toBe(2 * prompt + 3 * completion);
    }
    await expectRightBooks(folder);
  },
  testMs,
);
