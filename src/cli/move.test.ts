import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addCustomer, book, makeRecord } from '../../tests/contracts/bookings.ts';
import { startPostgres } from '../../tests/support/postgres.ts';
import { openStore } from '../store/open.ts';
import { commandEnvironment } from './command-environment.ts';
import { runCommand } from './dispatch.ts';
import { topics } from './topics.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-move-'));
const path = join(folder, 'tollgate.db');
const unreachable = 'postgres://anna:geheim@127.0.0.1:1/ledger';

beforeAll(async () => {
  const store = await openStore(`sqlite:${path}`);
  const customer = await addCustomer(store, 1_000);
  await book(store, [makeRecord({ ...customer }), makeRecord({ ...customer })]);
  await store.database.close();
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs a command on the same file. */
async function tollgate(args: readonly string[], stdin = '', dataDir = folder) {
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runCommand([...args, '--data-dir', dataDir], topics, {
    ...commandEnvironment,
    out: (text) => void out.push(`${text}\n`),
    err: (text) => void err.push(`${text}\n`),
    input: async () => stdin,
    now: () => Date.UTC(2026, 2, 15),
  });
  return { code, out: out.join(''), err: err.join('') };
}

describe('tollgate move', () => {
  test('accepts the URL on stdin and never prints its password', async () => {
    const unreachableResult = {
      code: 1,
      out: '',
      err: 'Postgres at 127.0.0.1:1/ledger cannot be reached: connection refused.\n',
    };
    expect(await tollgate(['move'], `${unreachable}\n`)).toEqual(unreachableResult);
    expect(await tollgate(['move', '--to', unreachable])).toEqual(unreachableResult);
    expect(await tollgate(['move', '--to', unreachable.replace('postgres', 'mysql')])).toEqual({
      code: 2,
      out: '',
      err: 'command line: --to must start with postgres:// or postgresql://.\n',
    });
  });

  test('fails if the database file does not exist or Postgres is configured', async () => {
    const none = join(folder, 'none');
    expect(await tollgate(['move', '--to', unreachable], '', none)).toEqual({
      code: 1,
      out: '',
      err: `There is no database in ${none}. Set --data-dir to its folder.\n`,
    });
    const config = join(folder, 'postgres.yaml');
    writeFileSync(config, `database: ${unreachable}\n`);
    expect(await tollgate(['move', '--to', unreachable, '--config', config])).toEqual({
      code: 1,
      out: '',
      err:
        'The database is already in Postgres. ' +
        'To move from a SQLite file, unset DATABASE_URL (database).\n',
    });
  });

  test('prints the rows of each table and the verification as JSON', async () => {
    const url = await (await startPostgres()).createDatabase();
    const { code, out, err } = await tollgate(['move', '--to', url, '--json']);
    expect([code, err]).toEqual([0, '']);
    expect(JSON.parse(out)).toMatchObject({
      ok: true,
      tables: { tenants: 1, accounts: 1, request_log: 2, skills: 0 },
      ...{ accounts: 1, requests: 2, discrepancies: 0 },
    });
  }, 120_000);

  test('copies an inconsistent ledger unchanged and reports the discrepancies', async () => {
    const store = await openStore(`sqlite:${path}`);
    const { owner } = await store.database.write
      .updateTable('accounts')
      .set({ granted: 1_500, balance: 1_486 })
      .returning('owner')
      .executeTakeFirstOrThrow();
    await store.database.close();
    const url = await (await startPostgres()).createDatabase();
    const { code, out, err } = await tollgate(['move', '--to', url]);
    expect(code).toBe(1);
    expect(out).toContain(`Account ${owner}: its entries add up to 986, not 1486.\n`);
    expect(out).not.toContain('DATABASE_URL');
    expect(err).toBe(
      'These discrepancies were already in the SQLite file: "tollgate ledger verify" reports the ' +
        'same ones for it.\nThe ledger has 2 discrepancies.\n',
    );
  }, 120_000);
});
