import { describe, expect, test } from 'bun:test';
import { sql } from 'kysely';
import type { Store } from '../../src/store/open.ts';
import { openStore } from '../../src/store/open.ts';
import { verifyLedger } from '../../src/store/verify/verify.ts';
import { addCustomer, book, dayMs, discrepancies, makeRecord } from './bookings.ts';
import { engines } from './engines.ts';

/** Removes the constraints and triggers of the database, so that a test can corrupt it. */
async function dropConstraints({ database }: Store): Promise<void> {
  const texts =
    database.engine === 'sqlite'
      ? [
          'pragma ignore_check_constraints = on',
          'pragma foreign_keys = off',
          'drop trigger ledger_entries_no_update',
          'drop trigger ledger_entries_no_delete',
        ]
      : [
          'drop trigger ledger_entries_no_change on ledger_entries',
          'alter table accounts drop constraint accounts_check',
          'alter table accounts drop constraint accounts_check1',
          'alter table accounts drop constraint accounts_balance_check',
          'alter table accounts drop constraint accounts_tenant_id_fkey',
          'alter table api_keys drop constraint api_keys_tenant_id_fkey',
          'alter table leases drop constraint leases_account_id_fkey',
          'alter table ledger_entries drop constraint ledger_entries_account_id_fkey',
        ];
  for (const text of texts) await sql.raw(text).execute(database.write);
}

/** Returns the number of queries that a check runs. */
async function countQueries({ database }: Store): Promise<number> {
  let queries = 0;
  const read = database.read.withPlugin({
    transformQuery: ({ node }) => {
      queries += 1;
      return node;
    },
    transformResult: async ({ result }) => result,
  });
  const { discrepancies: found } = await verifyLedger({ ...database, read }, () => {});
  expect(found).toBe(0);
  return queries;
}

/** Statements that corrupt the ledger, and the discrepancies that the check must report. */
const corruptions: [string, string[], RegExp[]][] = [
  [
    'an edited balance',
    ["update accounts set balance = balance + 5 where owner like 'tenant:%'"],
    [
      /^Account tenant:\S+: the balance is 9985, but 10000 granted minus 20 spent is 9980\.$/,
      /its entries add up to 9980, not 9985\.$/,
    ],
  ],
  [
    'an invented grant',
    ['update accounts set balance = balance + 5, granted = granted + 5'],
    [/its entries add up to 9980, not 9985\.$/, /its grants add up to 10000, not 10005\.$/],
  ],
  [
    'an edited amount',
    ["update ledger_entries set amount = -9 where kind = 'charge'"],
    [
      /: entry \d+ records a balance of 9980, but 10000 - 9 = 9991\.$/,
      /: entry \d+ takes 9, but its requests add up to 20\.$/,
      /its entries add up to 9991, not 9980\.$/,
      /its charges add up to 9, not 20\.$/,
    ],
  ],
  [
    'an edited running balance',
    ["update ledger_entries set balance_after = 10001 where kind = 'grant'"],
    [
      /: entry \d+ records a balance of 10001, but 0 \+ 10000 = 10000\.$/,
      /: entry \d+ records a balance of 9980, but 10001 - 20 = 9981\.$/,
    ],
  ],
  [
    'a deleted entry',
    ["delete from ledger_entries where kind = 'charge'"],
    [
      /its entries add up to 10000, not 9980\.$/,
      /its charges add up to 0, not 20\.$/,
      /, 2026-02-10, request \S{36}: no ledger entry of the wallet includes its charge\.$/,
      /, 2026-02-10, request \S{36}: no ledger entry of the wallet includes its charge\.$/,
    ],
  ],
  [
    'a missing lease',
    ['update accounts set leased = 7'],
    [/: 7 credits are on lease, but its leases add up to 0\.$/],
  ],
  [
    'a missing lease of 1 credit',
    ['update accounts set leased = 1'],
    [/: 1 credit is on lease, but its leases add up to 0\.$/],
  ],
  [
    'a negative number of leased credits',
    ['update accounts set leased = -1'],
    [/: -1 of 9980 credits are on lease\.$/, /leases add up to 0\.$/],
  ],
  [
    'an edited charge of a request',
    ['update request_log set model_charge = 1 where model_charge = 13'],
    [
      /: entry \d+ takes 20, but its requests add up to 8\.$/,
      /^Tenant \S+, 2026-02-10, .*: the daily sums differ .* in model_charge by 12\.$/,
    ],
  ],
  [
    'a deleted request',
    ['delete from request_log where model_charge = 13'],
    [
      /: entry \d+ takes 20, but its requests add up to 7\.$/,
      /the daily sums differ from the request log in requests by 1, .*model_charge by 13/,
    ],
  ],
  [
    'an edited daily sum',
    ['update usage_daily set requests = requests + 2, searches = 4'],
    [/in requests by 2, searches by 4\.$/],
  ],
  [
    'deleted daily sums',
    ['delete from usage_daily'],
    [/in requests by -2, prompt_tokens by -20, completion_tokens by -10, model_charge by -20/],
  ],
  [
    'charges without an entry',
    ['update request_log set entry_id = null'],
    [
      /: entry \d+ takes 20, but its requests add up to 0\.$/,
      /no ledger entry of the wallet includes its charge\.$/,
      /no ledger entry of the wallet includes its charge\.$/,
    ],
  ],
  [
    'an entry of an unknown kind',
    ["update ledger_entries set kind = 'transfer' where kind = 'grant'"],
    [/^Account tenant:\S+: entry \d+ has the unknown kind transfer\.$/],
  ],
  [
    'grants with negative amounts',
    [
      "update ledger_entries set amount = -amount, balance_after = 0 where kind = 'grant'",
      "update ledger_entries set kind = 'grant' where kind = 'charge'",
    ],
    [
      /: entry \d+ records a balance of 0, but 0 - 10000 = -10000\.$/,
      /: entry \d+ is a grant, but its amount of -10000 isn't positive\.$/,
      /: entry \d+ records a balance of 9980, but 0 - 20 = -20\.$/,
      /: entry \d+ is a grant, but its amount of -20 isn't positive\.$/,
      /its entries add up to -10020, not 9980\.$/,
      /its grants add up to -10020, not 10000\.$/,
      /its charges add up to 0, not 20\.$/,
    ],
  ],
  [
    'a missing wallet',
    ['update request_log set entry_id = null, model_charge = 0', 'delete from accounts'],
    [
      /^Tenant \S+, 2026-02-10, .*: the daily sums differ .* in model_charge by 20\.$/,
      /^Account number \d+: it is missing, but has 2 entries that add up to 9980\.$/,
    ],
  ],
  [
    'many entries without an account',
    [
      `insert into ledger_entries (account_id, kind, amount, balance_after, note, created_at)
        with recursive missing (id) as (
                  select -2200 union all select id + 2 from missing where id < -1000
                )
                select id, 'grant', 5, 5, '', 0 from missing`,
    ],
    Array.from(
      { length: 601 },
      (_, i) => new RegExp(`^Account number ${2 * i - 2200}: .* has 1 entry that adds up to 5`),
    ),
  ],
  [
    'a lease without an account',
    ["insert into leases values (7, 'p', 1, 9, 1, 0, 0)"],
    [/^Account number 7: it is missing, but 9 of its credits are leased\.$/],
  ],
  [
    'a missing tenant',
    ['delete from tenants'],
    [/^Account tenant:(\S+): there is no tenant \1\.$/],
  ],
  [
    'a limit without a key',
    [
      "insert into accounts (tenant_id, owner) select id, 'key:key_missing:2026-02-10' from tenants",
    ],
    [/^Account key:key_missing:2026-02-10: it is neither the wallet of tenant \S+ nor the limit/],
  ],
];

describe.each([...engines])('verifyLedger on $name', ({ empty }) => {
  async function withLedger(run: (store: Store) => Promise<void>): Promise<void> {
    const { url, remove } = await empty();
    const store = await openStore(url);
    try {
      const customer = await addCustomer(store, 10_000);
      const charge = (modelCharge: number) => ({ ...makeRecord().charges, modelCharge });
      await book(store, [
        makeRecord({ ...customer, charges: charge(7) }),
        makeRecord({ ...customer, charges: charge(13) }),
      ]);
      await run(store);
    } finally {
      await store.database.close();
      remove();
    }
  }

  test(
    'reports nothing for a correct ledger',
    () => withLedger(async (store) => expect(await discrepancies(store)).toEqual([])),
    120_000,
  );

  test(
    'reports nothing while requests are being booked',
    () =>
      withLedger(async (store) => {
        const customer = await addCustomer(store, 10_000_000);
        let isDone = false;
        const booking = (async () => {
          for (let round = 0; !isDone; round += 1) {
            const records = Array.from({ length: 20 }, () => makeRecord({ ...customer }));
            await book(store, records, Date.UTC(2026, 1, 10, 13) + round);
          }
        })();
        for (let round = 0; round < 10; round += 1) {
          expect(await discrepancies(store)).toEqual([]);
        }
        isDone = true;
        await booking;
      }),
    120_000,
  );

  test.each(corruptions)(
    'reports %s',
    (_, statements, expected) =>
      withLedger(async (store) => {
        await dropConstraints(store);
        for (const text of statements) await sql.raw(text).execute(store.database.write);
        const lines = await discrepancies(store);
        expect(lines).toEqual(expected.map((line) => expect.stringMatching(line)));
      }),
    120_000,
  );

  test(
    'checks days with few requests together and names the day whose sums differ',
    () =>
      withLedger(async (store) => {
        const customer = await addCustomer(store);
        const start = Date.UTC(2026, 1, 12, 12);
        const bookDays = async (first: number, count: number) => {
          for (let day = first; day < first + count; day += 1) {
            await book(store, [makeRecord({ ...customer, createdAt: start + day * dayMs })]);
          }
        };
        await bookDays(0, 2);
        const queries = await countQueries(store);
        await bookDays(2, 20);
        expect(await countQueries(store)).toBe(queries);
        const { write } = store.database;
        const text = `update usage_daily set requests = 3 where day = ${start / dayMs - 0.5 + 7}`;
        await sql.raw(text).execute(write);
        expect(await discrepancies(store)).toEqual([
          expect.stringMatching(/^Tenant \S+, 2026-02-19, .+ differ .+ in requests by 2\.$/),
        ]);
      }),
    120_000,
  );

  test(
    'reports a daily sum with a day beyond the calendar',
    () =>
      withLedger(async (store) => {
        const text = 'update usage_daily set day = 100000007';
        await sql.raw(text).execute(store.database.write);
        // The sums of the two days differ by the same amounts.
        expect(await discrepancies(store)).toEqual([
          expect.stringMatching(/^Tenant \S+, 2026-02-10, .+ in requests by -2, /),
          expect.stringMatching(/^Tenant \S+, day 100000007, .+ in requests by 2, /),
        ]);
      }),
    120_000,
  );

  test(
    'reports a request that is in the log twice',
    () =>
      withLedger(async (store) => {
        const { write, engine } = store.database;
        // SQLite can't drop a constraint, so the table is created again without it.
        const texts =
          engine === 'sqlite'
            ? [
                'create table copy as select * from request_log',
                'drop table request_log',
                'alter table copy rename to request_log',
              ]
            : [
                `do $$ declare log text := (select tableoid::regclass from request_log limit 1);
                begin
                  execute format('alter table %s drop constraint %1$s_request_id_key', log);
                end $$`,
              ];
        for (const text of texts) await sql.raw(text).execute(write);
        const [first] = await write.selectFrom('request_log').select('request_id').execute();
        await write
          .updateTable('request_log')
          .set({ request_id: first?.request_id ?? new Uint8Array(16) })
          .execute();
        const lines = await discrepancies(store);
        expect(lines).toEqual([
          expect.stringMatching(/^Request [0-9a-f-]{36} is in the log more than once\.$/),
        ]);
      }),
    120_000,
  );
});
