import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { sql } from 'kysely';
import type {
  CreditChange,
  CreditEntry,
  CreditOutcome,
  CreditStore,
} from '../../src/auth/management/credits.ts';
import { readOverview } from '../../src/store/reports/totals.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';
import { failureOf } from './failure-of.ts';

const largest = Number.MAX_SAFE_INTEGER;

describe.each([...engines])('SqlCredits on $name', ({ empty }) => {
  let stores: TwoStores;
  let credits: CreditStore;
  let otherCredits: CreditStore;

  beforeAll(async () => {
    stores = await openTwice(empty);
    credits = stores.one.creditStore;
    otherCredits = stores.other.creditStore;
  }, 120_000);

  afterAll(() => stores.close());

  const newTenant = () => addTenant(stores.one);

  function change(tenantId: string, amount: number, rest: Partial<CreditChange> = {}) {
    return { tenantId, amount, note: '', idempotencyKey: null, now: 1_000, ...rest };
  }

  async function lease(tenantId: string, leased: number): Promise<void> {
    await stores.one.database.write
      .updateTable('accounts')
      .set({ leased })
      .where('owner', '=', `tenant:${tenantId}`)
      .execute();
  }

  /** Checks the balance and each running balance against the amounts of the entries. */
  async function expectBalanced(tenantId: string): Promise<void> {
    const entries = await credits.entries(tenantId, { limit: 1_000, offset: 0 });
    const sum = entries.reduce((total, entry) => total + entry.amount, 0);
    expect((await credits.balance(tenantId))?.balance).toBe(sum);
    const inOrder = entries.toReversed();
    let running = 0;
    for (const entry of inOrder) {
      running += entry.amount;
      expect(entry.balance).toBe(running);
    }
  }

  function entryIn(outcome: CreditOutcome): CreditEntry {
    if (!('entry' in outcome)) throw new Error(`${outcome.kind} has no entry.`);
    return outcome.entry;
  }

  function kindsOf(outcomes: readonly CreditOutcome[]): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { kind } of outcomes) counts[kind] = (counts[kind] ?? 0) + 1;
    return counts;
  }

  test('books a grant with its note and balance', async () => {
    const tenantId = await newTenant();
    const first = await credits.change(change(tenantId, 500, { note: 'welcome – “gift”' }));
    expect(first).toEqual({
      kind: 'booked',
      entry: {
        id: expect.any(Number),
        tenantId,
        kind: 'grant',
        amount: 500,
        balance: 500,
        note: 'welcome – “gift”',
        createdAt: 1_000,
      },
    });
    await credits.change(change(tenantId, 250));
    expect(await otherCredits.balance(tenantId)).toEqual({ balance: 750, leased: 0, held: 0 });
    await expectBalanced(tenantId);
  });

  test('books a negative amount as a correction, even if the balance becomes 0', async () => {
    const tenantId = await newTenant();
    await credits.change(change(tenantId, 500));
    const outcome = await credits.change(change(tenantId, -500));
    expect(outcome).toMatchObject({
      kind: 'booked',
      entry: { kind: 'correction', amount: -500, balance: 0 },
    });
    await expectBalanced(tenantId);
  });

  test('books 1 credit as a grant, and -1 as a correction', async () => {
    const tenantId = await newTenant();
    for (const amount of [1, -1]) await credits.change(change(tenantId, amount));
    const entries = await credits.entries(tenantId, { limit: 10, offset: 0 });
    expect(entries.map(({ kind, amount, balance }) => [kind, amount, balance])).toEqual([
      ['correction', -1, 0],
      ['grant', 1, 1],
    ]);
  });

  test('rejects a correction that exceeds the balance', async () => {
    const tenantId = await newTenant();
    await credits.change(change(tenantId, 500));
    const outcome = await credits.change(change(tenantId, -501));
    expect(outcome).toEqual({ kind: 'insufficient' });
    expect(await credits.balance(tenantId)).toEqual({ balance: 500, leased: 0, held: 0 });
    expect(await credits.entries(tenantId, { limit: 10, offset: 0 })).toHaveLength(1);
  });

  test('does not let a correction take leased credits', async () => {
    const tenantId = await newTenant();
    await credits.change(change(tenantId, 500));
    await lease(tenantId, 300);
    expect(await credits.change(change(tenantId, -201))).toEqual({ kind: 'insufficient' });
    expect(await credits.change(change(tenantId, -200))).toMatchObject({ kind: 'booked' });
    expect(await credits.balance(tenantId)).toEqual({ balance: 300, leased: 300, held: 0 });
  });

  test('books a grant to a fully leased wallet', async () => {
    const tenantId = await newTenant();
    await credits.change(change(tenantId, 500));
    await lease(tenantId, 500);
    await credits.change(change(tenantId, 1));
    expect(await credits.balance(tenantId)).toEqual({ balance: 501, leased: 500, held: 0 });
  });

  test('recognizes an unknown tenant', async () => {
    expect(await credits.change(change('ten_nobody', 5))).toEqual({ kind: 'unknown-tenant' });
    expect(await credits.balance('ten_nobody')).toBeUndefined();
    expect(await credits.entries('ten_nobody', { limit: 5, offset: 0 })).toEqual([]);
  });

  test('separates the entries and balances of tenants', async () => {
    const [firstTenant, secondTenant] = [await newTenant(), await newTenant()];
    await credits.change(change(firstTenant, 100, { idempotencyKey: 'same' }));
    const other = await credits.change(change(secondTenant, 200, { idempotencyKey: 'same' }));
    expect(other).toMatchObject({
      kind: 'booked',
      entry: { tenantId: secondTenant, balance: 200 },
    });
    const entries = await credits.entries(firstTenant, { limit: 10, offset: 0 });
    expect(entries.map((entry) => entry.amount)).toEqual([100]);
  });

  test('lists entries newest first, even within one millisecond', async () => {
    const tenantId = await newTenant();
    for (const amount of [1, 2, 3, 4, 5]) await credits.change(change(tenantId, amount));
    const pages = [
      await credits.entries(tenantId, { limit: 2, offset: 0 }),
      await credits.entries(tenantId, { limit: 2, offset: 2 }),
      await credits.entries(tenantId, { limit: 2, offset: 4 }),
    ];
    expect(pages.map((page) => page.map((entry) => entry.amount))).toEqual([[5, 4], [3, 2], [1]]);
  });

  describe('with an idempotency key', () => {
    test('returns the first entry for a repeated key and books nothing', async () => {
      const tenantId = await newTenant();
      const first = await credits.change(
        change(tenantId, 70, { idempotencyKey: 'k', note: 'one' }),
      );
      const repeated = await otherCredits.change(
        change(tenantId, 70, { idempotencyKey: 'k', note: 'two', now: 2_000 }),
      );
      expect(first.kind).toBe('booked');
      expect(repeated.kind).toBe('repeated');
      expect(entryIn(repeated)).toEqual(entryIn(first));
      expect(await credits.balance(tenantId)).toEqual({ balance: 70, leased: 0, held: 0 });
    });

    test('reports a conflict for a repeated key with another amount', async () => {
      const tenantId = await newTenant();
      await credits.change(change(tenantId, 70, { idempotencyKey: 'k' }));
      const outcome = await credits.change(change(tenantId, 71, { idempotencyKey: 'k' }));
      expect(outcome).toMatchObject({ kind: 'conflict', entry: { amount: 70 } });
      await expectBalanced(tenantId);
    });

    test('recognizes a repeated key even if the wallet is empty', async () => {
      const tenantId = await newTenant();
      await credits.change(change(tenantId, 70));
      await credits.change(change(tenantId, -70, { idempotencyKey: 'correction' }));
      const repeated = await credits.change(
        change(tenantId, -70, { idempotencyKey: 'correction' }),
      );
      expect(repeated.kind).toBe('repeated');
    });

    test('allows the key of a rejected change to be used again', async () => {
      const tenantId = await newTenant();
      const correction = change(tenantId, -70, { idempotencyKey: 'correction' });
      expect((await credits.change(correction)).kind).toBe('insufficient');
      await credits.change(change(tenantId, 70));
      expect((await credits.change(correction)).kind).toBe('booked');
    });

    test('books every change without a key', async () => {
      const tenantId = await newTenant();
      await credits.change(change(tenantId, 70));
      await credits.change(change(tenantId, 70));
      expect(await credits.balance(tenantId)).toEqual({ balance: 140, leased: 0, held: 0 });
    });

    test('books 1 entry for 20 concurrent changes with the same key', async () => {
      const tenantId = await newTenant();
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          (i % 2 ? credits : otherCredits).change(change(tenantId, 9, { idempotencyKey: 'burst' })),
        ),
      );
      expect(kindsOf(outcomes)).toEqual({ booked: 1, repeated: 19 });
      expect(new Set(outcomes.map((outcome) => entryIn(outcome).id)).size).toBe(1);
      expect(await credits.balance(tenantId)).toEqual({ balance: 9, leased: 0, held: 0 });
    });
  });

  describe('with concurrent changes', () => {
    test('never takes more than the balance', async () => {
      const tenantId = await newTenant();
      await credits.change(change(tenantId, 100));
      const outcomes = await Promise.all(
        Array.from({ length: 40 }, (_, i) =>
          (i % 2 ? credits : otherCredits).change(change(tenantId, -7)),
        ),
      );
      expect(kindsOf(outcomes)).toEqual({ booked: 14, insufficient: 26 });
      expect(await credits.balance(tenantId)).toEqual({ balance: 2, leased: 0, held: 0 });
      await expectBalanced(tenantId);
    });

    test('counts all grants of 2 processes', async () => {
      const tenantId = await newTenant();
      await Promise.all(
        Array.from({ length: 40 }, (_, i) =>
          (i % 2 ? credits : otherCredits).change(change(tenantId, i + 1)),
        ),
      );
      expect(await credits.balance(tenantId)).toEqual({ balance: 820, leased: 0, held: 0 });
      await expectBalanced(tenantId);
    });
  });

  describe('with large amounts', () => {
    test('is exact up to the largest safe integer', async () => {
      const tenantId = await newTenant();
      await credits.change(change(tenantId, largest - 1));
      await credits.change(change(tenantId, 1));
      expect(await credits.balance(tenantId)).toEqual({ balance: largest, leased: 0, held: 0 });
      const corrected = await credits.change(change(tenantId, -largest));
      expect(corrected).toMatchObject({ kind: 'booked', entry: { amount: -largest, balance: 0 } });
    });

    test('rejects a grant above the largest safe integer', async () => {
      const tenantId = await newTenant();
      await credits.change(change(tenantId, largest));
      expect((await failureOf(credits.change(change(tenantId, 1)))).message).toMatch(
        /above the supported maximum/,
      );
      expect(await credits.balance(tenantId)).toEqual({ balance: largest, leased: 0, held: 0 });
      expect(await credits.entries(tenantId, { limit: 5, offset: 0 })).toHaveLength(1);
    });

    test('rejects a grant that raises the total granted above the largest safe integer', async () => {
      const tenantId = await newTenant();
      await credits.change(change(tenantId, largest));
      await stores.one.database.write
        .updateTable('accounts')
        .set({ balance: largest - 10, spent: 10 })
        .where('owner', '=', `tenant:${tenantId}`)
        .execute();
      expect((await failureOf(credits.change(change(tenantId, 5)))).message).toMatch(
        /above the supported maximum/,
      );
    });

    test('adds the balances of several tenants approximately', async () => {
      for (let tenants = 0; tenants < 2; tenants++) {
        await credits.change(change(await newTenant(), largest));
      }
      const { balance } = await readOverview(stores.one.database);
      expect(balance.balance).toBeGreaterThanOrEqual(2 * largest);
    });

    test('rejects a stored number that cannot be read exactly', async () => {
      const query = sql`select cast('9007199254740993' as bigint) as n`;
      expect((await failureOf(query.execute(stores.one.database.read))).message).toMatch(/exactly/);
    });

    test.each([0, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])(
      'rejects an amount of %p as a programming error',
      async (amount) => {
        const tenantId = await newTenant();
        expect((await failureOf(credits.change(change(tenantId, amount)))).message).toMatch(
          /nonzero integer/,
        );
      },
    );
  });

  describe('against tampering', () => {
    const statements = [
      ['an update', 'update ledger_entries set amount = 1'],
      ['an update of a note', "update ledger_entries set note = 'nothing to see'"],
      ['a delete', 'delete from ledger_entries'],
    ] as const;

    test.each(statements)('rejects %s of ledger entries', async (_name, text) => {
      const tenantId = await newTenant();
      await credits.change(change(tenantId, 100));
      const { write } = stores.one.database;
      expect((await failureOf(sql.raw(text).execute(write))).message).toMatch(/append-only/);
      await expectBalanced(tenantId);
    });

    test('rejects replacing an entry by its ID or key', async () => {
      const tenantId = await newTenant();
      const booked = await credits.change(change(tenantId, 100, { idempotencyKey: 'k' }));
      const { id } = entryIn(booked);
      const { write, engine } = stores.one.database;
      const columns = 'account_id, kind, amount, balance_after, note, idempotency_key, created_at';
      const values = (key: string) => `account_id, kind, 1, 1, note, ${key}, created_at`;
      const source = `from ledger_entries where id = ${id}`;
      const texts =
        engine === 'sqlite'
          ? [
              `replace into ledger_entries (${columns}) select ${values("'k'")} ${source}`,
              `replace into ledger_entries (id, ${columns}) select id, ${values('null')} ${source}`,
            ]
          : [
              `insert into ledger_entries (${columns}) select ${values("'k'")} ${source}
                on conflict (account_id, idempotency_key) do update set amount = 1`,
              'truncate ledger_entries',
            ];
      for (const text of texts) {
        expect((await failureOf(sql.raw(text).execute(write))).message).toMatch(/append-only/);
      }
      await expectBalanced(tenantId);
    });

    test.each([
      ['a negative balance', 'balance = -1'],
      ['a lease larger than the balance', 'leased = balance + 1'],
      ['a negative lease', 'leased = -1'],
      ['a balance that cannot be read exactly', 'balance = 9007199254740992'],
    ])('rejects %s in the database', async (_name, assignment) => {
      const tenantId = await newTenant();
      const text = `update accounts set ${assignment} where owner = 'tenant:${tenantId}'`;
      expect((await failureOf(sql.raw(text).execute(stores.one.database.write))).message).toMatch(
        /check/i,
      );
      expect(await credits.balance(tenantId)).toEqual({ balance: 0, leased: 0, held: 0 });
    });

    test('rejects text in a column of credits', async () => {
      const text = "update accounts set balance = 'many'";
      expect((await failureOf(sql.raw(text).execute(stores.one.database.write))).message).toMatch(
        /cannot store TEXT|invalid input syntax/,
      );
    });

    test('stores SQL in notes, keys, and IDs as text', async () => {
      const tenantId = await newTenant();
      const injection = "'); delete from ledger_entries; --\u2028 $1 ? \\";
      await credits.change(change(tenantId, 5, { note: injection, idempotencyKey: injection }));
      const [entry] = await credits.entries(tenantId, { limit: 1, offset: 0 });
      expect(entry?.note).toBe(injection);
      expect(await credits.balance(injection)).toBeUndefined();
    });
  });
});
