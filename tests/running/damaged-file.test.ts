/** A database file that a disk or a hand has damaged is named by whoever comes upon it. */
import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Gateway, run, startGateway } from '../support/gateway.ts';

const testMs = 120_000;
const pageBytes = 4_096;

/** The file of a gateway that has booked some requests and is stopped. */
async function bookedFile(): Promise<{ gateway: Gateway; path: string }> {
  const gateway = await startGateway();
  for (let i = 0; i < 20; i += 1) {
    const messages = [{ role: 'user', content: `Question ${i}` }];
    expect((await gateway.chat({ model: 'demo/chat', messages })).status).toBe(200);
  }
  await gateway.stop();
  return { gateway, path: join(gateway.dataDir, 'tollgate.db') };
}

test(
  'damage is found and said in a line, in a table or an index',
  async () => {
    const { gateway, path } = await bookedFile();
    const whole = readFileSync(path);
    expect((await verdict(gateway)).exitCode).toBe(0);
    for (const page of [2, 9]) {
      const bytes = Buffer.from(whole);
      bytes.fill(0xa5, page * pageBytes, page * pageBytes + 64);
      writeFileSync(path, bytes);
      const { exitCode, said } = await verdict(gateway);
      expect([page, exitCode]).toEqual([page, 1]);
      expect(said).toMatch(/^The database file .*damaged/);
    }
  },
  testMs,
);

test(
  'a start that meets the damage names the file and says what to do',
  async () => {
    const { gateway, path } = await bookedFile();
    const page = firstPageOf('settings', path);
    const bytes = readFileSync(path);
    bytes.fill(0xa5, (page - 1) * pageBytes, page * pageBytes);
    writeFileSync(path, bytes);
    const { exitCode, stdout, stderr } = await run(['serve', '--port', '0'], {
      dataDir: gateway.dataDir,
    });
    expect([exitCode, stdout, stderr]).toEqual([
      1,
      '',
      `The database file ${path} cannot be used: it is damaged; ` +
        'stop what uses it, and restore a backup beside its journal.\n',
    ]);
  },
  testMs,
);

function firstPageOf(table: string, path: string): number {
  using database = new Database(path, { readonly: true });
  const look = database.query<{ rootpage: number }, [string]>(
    'select rootpage from sqlite_schema where name = ?',
  );
  return look.get(table)?.rootpage ?? 0;
}

test(
  'an empty file is no books',
  async () => {
    const { gateway, path } = await bookedFile();
    truncateSync(path, 0);
    const { exitCode, said } = await verdict(gateway);
    expect(exitCode).toBe(1);
    expect(said).toStartWith(`There is no database at ${path}`);
  },
  testMs,
);

async function verdict({ dataDir }: Gateway): Promise<{ exitCode: number; said: string }> {
  const { exitCode, stdout, stderr } = await run(['ledger', 'verify'], { dataDir });
  return { exitCode, said: stdout + stderr };
}
