import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { addCustomer, book, makeRecord } from '../../tests/contracts/bookings.ts';
import { readTable } from '../../tests/support/csv.ts';
import { openStore, type Store } from '../store/open.ts';
import { commandEnvironment } from './command-environment.ts';
import { runCommand } from './dispatch.ts';
import { topics } from './topics.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-ledger-'));
let store: Store;
let tenantId: string;

beforeAll(async () => {
  store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
  const customer = await addCustomer(store, 1_000);
  tenantId = customer.tenantId;
  await book(store, [makeRecord({ ...customer }), makeRecord({ ...customer })]);
});
afterAll(async () => {
  await store.database.close();
  rmSync(folder, { recursive: true });
});

/** Runs a command on the same database file, like a separate process. */
async function tollgate(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runCommand([...args, '--data-dir', folder], topics, {
    ...commandEnvironment,
    out: (text) => void out.push(`${text}\n`),
    write: async (piece) => void out.push(piece),
    err: (text) => void err.push(`${text}\n`),
  });
  return { code, out: out.join(''), err: err.join('') };
}

describe('tollgate ledger statement', () => {
  test('prints a month of a tenant as CSV', async () => {
    const { code, out } = await tollgate(
      ...['ledger', 'statement', '--tenant', tenantId, '--month', '2026-02'],
    );
    expect(code).toBe(0);
    expect(readTable(out).map(({ type, amount, balance }) => [type, amount, balance])).toEqual([
      ['opening_balance', '0', '1000'],
      ['charge', '-7', '993'],
      ['charge', '-7', '986'],
      ['closing_balance', '0', '986'],
    ]);
  });

  test('rejects an invalid month and an unknown tenant with one sentence', async () => {
    const month = await tollgate('ledger', 'statement', '--tenant', tenantId, '--month', 'May');
    expect(month).toMatchObject({ code: 1, out: '' });
    expect(month.err).toBe('month must be a month such as 2026-02, not "May".\n');
    const nobody = await tollgate('ledger', 'statement', '--tenant', 'nobody');
    expect(nobody).toEqual({ code: 1, out: '', err: 'There is no tenant with this ID.\n' });
  });
});

describe('tollgate ledger verify', () => {
  test('prints one line if the ledger is consistent', async () => {
    expect(await tollgate('ledger', 'verify')).toEqual({
      code: 0,
      out: 'The ledger is consistent: 1 account, 2 entries, 2 requests.\n',
      err: '',
    });
    const { code, out } = await tollgate('ledger', 'verify', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual({
      ok: true,
      accounts: 1,
      entries: 2,
      requests: 2,
      discrepancies: 0,
      listed: [],
    });
  });

  test('lists every discrepancy and exits with 1', async () => {
    await sql`update usage_daily set searches = 3`.execute(store.database.write);
    const { code, out, err } = await tollgate('ledger', 'verify');
    expect(code).toBe(1);
    expect(out).toMatch(/^Tenant .*: the daily sums differ .* in searches by 3\.\n$/);
    expect(err).toBe('The ledger has 1 discrepancy.\n');
    const json = await tollgate('ledger', 'verify', '--json');
    expect(json.code).toBe(1);
    expect(JSON.parse(json.out)).toMatchObject({ ok: false, listed: [out.trimEnd()] });
  });

  test('prints progress for large ledgers', async () => {
    const { write } = store.database;
    await sql`update usage_daily set searches = 0`.execute(write);
    await sql`
      insert into ledger_entries
        (account_id, kind, amount, balance_after, note, idempotency_key, created_at)
      with recursive grants (number) as (
        select 1 union all select number + 1 from grants where number < 150000
      )
      select id, 'grant', 1, balance + number, '', null, 0 from grants, accounts`.execute(write);
    await sql`update accounts set balance = balance + 150000, granted = granted + 150000`.execute(
      write,
    );
    expect(await tollgate('ledger', 'verify')).toEqual({
      code: 0,
      out: 'The ledger is consistent: 1 account, 150,002 entries, 2 requests.\n',
      err: 'entries: 100,000 checked\n',
    });
  });
});
