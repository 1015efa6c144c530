/** Commands and startup print the path of a damaged database file. */
import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Gateway, run, startGateway } from '../support/gateway.ts';

const testMs = 120_000;
const pageBytes = 4_096;

/** Runs a gateway with some requests, stops it, and returns the path of its database. */
async function stoppedGateway(): Promise<{ gateway: Gateway; path: string }> {
  const gateway = await startGateway();
  for (let i = 0; i < 20; i += 1) {
    const messages = [{ role: 'user', content: `Question ${i}` }];
    expect((await gateway.chat({ model: 'demo/chat', messages })).status).toBe(200);
  }
  await gateway.stop();
  return { gateway, path: join(gateway.dataDir, 'tollgate.db') };
}

test(
  'ledger verify finds a damaged table or index',
  async () => {
    const { gateway, path } = await stoppedGateway();
    const intact = readFileSync(path);
    expect((await verify(gateway)).exitCode).toBe(0);
    for (const page of [2, 9]) {
      const bytes = Buffer.from(intact);
      bytes.fill(0xa5, page * pageBytes, page * pageBytes + 64);
      writeFileSync(path, bytes);
      const { exitCode, output } = await verify(gateway);
      expect([page, exitCode]).toEqual([page, 1]);
      expect(output).toMatch(/^The database file .*damaged/);
    }
  },
  testMs,
);

test(
  'startup on a damaged database prints its path and what to do',
  async () => {
    const { gateway, path } = await stoppedGateway();
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
      `The database file ${path} can't be used: it is damaged; ` +
        'stop all processes that use it, restore a backup, and keep the journal folder in place.\n',
    ]);
  },
  testMs,
);

function firstPageOf(table: string, path: string): number {
  using database = new Database(path, { readonly: true });
  const query = database.query<{ rootpage: number }, [string]>(
    'select rootpage from sqlite_schema where name = ?',
  );
  return query.get(table)?.rootpage ?? 0;
}

test(
  'ledger verify treats an empty file as a missing database',
  async () => {
    const { gateway, path } = await stoppedGateway();
    truncateSync(path, 0);
    const { exitCode, output } = await verify(gateway);
    expect(exitCode).toBe(1);
    expect(output).toStartWith(`There is no database at ${path}`);
  },
  testMs,
);

async function verify({ dataDir }: Gateway): Promise<{ exitCode: number; output: string }> {
  const { exitCode, stdout, stderr } = await run(['ledger', 'verify'], { dataDir });
  return { exitCode, output: stdout + stderr };
}
