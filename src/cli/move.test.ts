import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addCustomer, book, makeRecord } from '../../tests/contracts/bookings.ts';
import { startPostgres } from '../../tests/support/postgres.ts';
import { openStore } from '../store/open.ts';
import { commandEnvironment } from './process.ts';
import { runCommand } from './run.ts';
import { topics } from './topics.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-move-'));
const path = join(folder, 'tollgate.db');
const nowhere = 'postgres://anna:geheim@127.0.0.1:1/books';

beforeAll(async () => {
  const store = await openStore(`sqlite:${path}`);
  const customer = await addCustomer(store, 1_000);
  await book(store, [makeRecord({ ...customer }), makeRecord({ ...customer })]);
  await store.database.close();
});
afterAll(() => rmSync(folder, { recursive: true }));

/** One command line on the same file; `typed` is what comes on standard input. */
async function tollgate(words: readonly string[], typed = '', dataDir = folder) {
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runCommand([...words, '--data-dir', dataDir], topics, {
    ...commandEnvironment,
    out: (text) => void out.push(`${text}\n`),
    err: (text) => void err.push(`${text}\n`),
    input: async () => typed,
    now: () => Date.UTC(2026, 2, 15),
  });
  return { code, out: out.join(''), err: err.join('') };
}

describe('tollgate move', () => {
  test('takes the address from standard input too, and never repeats its password', async () => {
    const refused = {
      code: 1,
      out: '',
      err: 'Postgres at 127.0.0.1:1/books cannot be reached: connection refused.\n',
    };
    expect(await tollgate(['move'], `${nowhere}\n`)).toEqual(refused);
    expect(await tollgate(['move', '--to', nowhere])).toEqual(refused);
    expect(await tollgate(['move', '--to', nowhere.replace('postgres', 'mysql')])).toEqual({
      code: 2,
      out: '',
      err: 'command line: --to must begin with postgres://.\n',
    });
  });

  test('says what is missing where there is no file, or no file is configured', async () => {
    const none = join(folder, 'none');
    expect(await tollgate(['move', '--to', nowhere], '', none)).toEqual({
      code: 1,
      out: '',
      err: `There is no database in ${none}: name its folder with --data-dir.\n`,
    });
    const config = join(folder, 'postgres.yaml');
    writeFileSync(config, `database: ${nowhere}\n`);
    expect(await tollgate(['move', '--to', nowhere, '--config', config])).toEqual({
      code: 1,
      out: '',
      err:
        'The store is in Postgres already. ' +
        'To move from a file, leave DATABASE_URL (database) unset.\n',
    });
  });

  test('prints the rows of each table and the state of the books as JSON', async () => {
    const url = await (await startPostgres()).createDatabase();
    const { code, out, err } = await tollgate(['move', '--to', url, '--json']);
    expect([code, err]).toEqual([0, '']);
    expect(JSON.parse(out)).toMatchObject({
      ok: true,
      tables: { tenants: 1, accounts: 1, request_log: 2, skills: 0 },
      ...{ accounts: 1, requests: 2, discrepancies: 0 },
    });
  }, 120_000);

  test('moves books that are wrong as they are, and says so', async () => {
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
      'All was moved as it is: "tollgate ledger verify" should say the same of the file.\n' +
        'The books are wrong: 2 discrepancies.\n',
    );
  }, 120_000);
});
