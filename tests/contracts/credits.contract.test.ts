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

describe.each([...engines])('the credit book on $name', ({ empty }) => {
  let stores: TwoStores;
  let book: CreditStore;
  let elsewhere: CreditStore;

  beforeAll(async () => {
    stores = await openTwice(empty);
    book = stores.one.creditStore;
    elsewhere = stores.other.creditStore;
  }, 120_000);

  afterAll(() => stores.close());

  const wallet = () => addTenant(stores.one);

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

  /** The promise of the ledger: what was booked is what is there. */
  async function expectBalanced(tenantId: string): Promise<void> {
    const entries = await book.entries(tenantId, { limit: 1_000, offset: 0 });
    const sum = entries.reduce((total, entry) => total + entry.amount, 0);
    expect((await book.balance(tenantId))?.balance).toBe(sum);
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

  test('a grant is booked with its note and its running balance', async () => {
    const tenantId = await wallet();
    const first = await book.change(change(tenantId, 500, { note: 'welcome – „gift“' }));
    expect(first).toEqual({
      kind: 'booked',
      entry: {
        id: expect.any(Number),
        tenantId,
        kind: 'grant',
        amount: 500,
        balance: 500,
        note: 'welcome – „gift“',
        createdAt: 1_000,
      },
    });
    await book.change(change(tenantId, 250));
    expect(await elsewhere.balance(tenantId)).toEqual({ balance: 750, leased: 0 });
    await expectBalanced(tenantId);
  });

  test('a negative amount is a correction and may empty the wallet', async () => {
    const tenantId = await wallet();
    await book.change(change(tenantId, 500));
    const outcome = await book.change(change(tenantId, -500));
    expect(outcome).toMatchObject({
      kind: 'booked',
      entry: { kind: 'correction', amount: -500, balance: 0 },
    });
    await expectBalanced(tenantId);
  });

  test('a correction below zero is refused and says what is available', async () => {
    const tenantId = await wallet();
    await book.change(change(tenantId, 500));
    const outcome = await book.change(change(tenantId, -501));
    expect(outcome).toEqual({ kind: 'insufficient', available: 500 });
    expect(await book.balance(tenantId)).toEqual({ balance: 500, leased: 0 });
    expect(await book.entries(tenantId, { limit: 10, offset: 0 })).toHaveLength(1);
  });

  test('a correction takes only what running requests have not leased', async () => {
    const tenantId = await wallet();
    await book.change(change(tenantId, 500));
    await lease(tenantId, 300);
    expect(await book.change(change(tenantId, -201))).toEqual({
      kind: 'insufficient',
      available: 200,
    });
    expect(await book.change(change(tenantId, -200))).toMatchObject({ kind: 'booked' });
    expect(await book.balance(tenantId)).toEqual({ balance: 300, leased: 300 });
  });

  test('a grant to a fully leased wallet is booked', async () => {
    const tenantId = await wallet();
    await book.change(change(tenantId, 500));
    await lease(tenantId, 500);
    await book.change(change(tenantId, 1));
    expect(await book.balance(tenantId)).toEqual({ balance: 501, leased: 500 });
  });

  test('an unknown tenant is told apart', async () => {
    expect(await book.change(change('ten_nobody', 5))).toEqual({ kind: 'unknown-tenant' });
    expect(await book.balance('ten_nobody')).toBeUndefined();
    expect(await book.entries('ten_nobody', { limit: 5, offset: 0 })).toEqual([]);
  });

  test('one tenant’s entries and balance never show another’s', async () => {
    const [mine, yours] = [await wallet(), await wallet()];
    await book.change(change(mine, 100, { idempotencyKey: 'same' }));
    const other = await book.change(change(yours, 200, { idempotencyKey: 'same' }));
    expect(other).toMatchObject({ kind: 'booked', entry: { tenantId: yours, balance: 200 } });
    const entries = await book.entries(mine, { limit: 10, offset: 0 });
    expect(entries.map((entry) => entry.amount)).toEqual([100]);
  });

  test('pages list entries newest first, also within one millisecond', async () => {
    const tenantId = await wallet();
    for (const amount of [1, 2, 3, 4, 5]) await book.change(change(tenantId, amount));
    const pages = [
      await book.entries(tenantId, { limit: 2, offset: 0 }),
      await book.entries(tenantId, { limit: 2, offset: 2 }),
      await book.entries(tenantId, { limit: 2, offset: 4 }),
    ];
    expect(pages.map((page) => page.map((entry) => entry.amount))).toEqual([[5, 4], [3, 2], [1]]);
  });

  describe('idempotency', () => {
    test('the same key again answers with the first entry and moves nothing', async () => {
      const tenantId = await wallet();
      const first = await book.change(change(tenantId, 70, { idempotencyKey: 'k', note: 'one' }));
      const again = await elsewhere.change(
        change(tenantId, 70, { idempotencyKey: 'k', note: 'two', now: 2_000 }),
      );
      expect(first.kind).toBe('booked');
      expect(again.kind).toBe('repeated');
      expect(entryIn(again)).toEqual(entryIn(first));
      expect(await book.balance(tenantId)).toEqual({ balance: 70, leased: 0 });
    });

    test('the same key with another amount is a conflict and moves nothing', async () => {
      const tenantId = await wallet();
      await book.change(change(tenantId, 70, { idempotencyKey: 'k' }));
      const outcome = await book.change(change(tenantId, 71, { idempotencyKey: 'k' }));
      expect(outcome).toMatchObject({ kind: 'conflict', entry: { amount: 70 } });
      await expectBalanced(tenantId);
    });

    test('a repeat is recognised even when the wallet could not afford it again', async () => {
      const tenantId = await wallet();
      await book.change(change(tenantId, 70));
      await book.change(change(tenantId, -70, { idempotencyKey: 'take' }));
      const again = await book.change(change(tenantId, -70, { idempotencyKey: 'take' }));
      expect(again.kind).toBe('repeated');
    });

    test('a refused change does not use up its key', async () => {
      const tenantId = await wallet();
      const take = change(tenantId, -70, { idempotencyKey: 'take' });
      expect((await book.change(take)).kind).toBe('insufficient');
      await book.change(change(tenantId, 70));
      expect((await book.change(take)).kind).toBe('booked');
    });

    test('changes without a key are all booked', async () => {
      const tenantId = await wallet();
      await book.change(change(tenantId, 70));
      await book.change(change(tenantId, 70));
      expect(await book.balance(tenantId)).toEqual({ balance: 140, leased: 0 });
    });

    test('twenty at once with one key make one entry, and all answer with it', async () => {
      const tenantId = await wallet();
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          (i % 2 ? book : elsewhere).change(change(tenantId, 9, { idempotencyKey: 'burst' })),
        ),
      );
      expect(kindsOf(outcomes)).toEqual({ booked: 1, repeated: 19 });
      expect(new Set(outcomes.map((outcome) => entryIn(outcome).id)).size).toBe(1);
      expect(await book.balance(tenantId)).toEqual({ balance: 9, leased: 0 });
    });
  });

  describe('at once', () => {
    test('corrections from two processes never take more than there is', async () => {
      const tenantId = await wallet();
      await book.change(change(tenantId, 100));
      const outcomes = await Promise.all(
        Array.from({ length: 40 }, (_, i) =>
          (i % 2 ? book : elsewhere).change(change(tenantId, -7)),
        ),
      );
      expect(kindsOf(outcomes)).toEqual({ booked: 14, insufficient: 26 });
      expect(await book.balance(tenantId)).toEqual({ balance: 2, leased: 0 });
      await expectBalanced(tenantId);
    });

    test('grants from two processes are all counted, in one unbroken order', async () => {
      const tenantId = await wallet();
      await Promise.all(
        Array.from({ length: 40 }, (_, i) =>
          (i % 2 ? book : elsewhere).change(change(tenantId, i + 1)),
        ),
      );
      expect(await book.balance(tenantId)).toEqual({ balance: 820, leased: 0 });
      await expectBalanced(tenantId);
    });
  });

  describe('large amounts', () => {
    test('are exact up to the largest whole number JavaScript can hold', async () => {
      const tenantId = await wallet();
      await book.change(change(tenantId, largest - 1));
      await book.change(change(tenantId, 1));
      expect(await book.balance(tenantId)).toEqual({ balance: largest, leased: 0 });
      const taken = await book.change(change(tenantId, -largest));
      expect(taken).toMatchObject({ kind: 'booked', entry: { amount: -largest, balance: 0 } });
    });

    test('beyond that are refused, and nothing moves', async () => {
      const tenantId = await wallet();
      await book.change(change(tenantId, largest));
      expect((await failureOf(book.change(change(tenantId, 1)))).message).toMatch(
        /above the supported maximum/,
      );
      expect(await book.balance(tenantId)).toEqual({ balance: largest, leased: 0 });
      expect(await book.entries(tenantId, { limit: 5, offset: 0 })).toHaveLength(1);
    });

    test('beyond that are refused for what was spent, too', async () => {
      const tenantId = await wallet();
      await book.change(change(tenantId, largest));
      await stores.one.database.write
        .updateTable('accounts')
        .set({ balance: largest - 10, spent: 10 })
        .where('owner', '=', `tenant:${tenantId}`)
        .execute();
      expect((await failureOf(book.change(change(tenantId, 5)))).message).toMatch(/counted/);
    });

    test('of several tenants together are told nearly', async () => {
      for (let tenants = 0; tenants < 2; tenants++) {
        await book.change(change(await wallet(), largest));
      }
      const { balance } = await readOverview(stores.one.database);
      expect(balance.balance).toBeGreaterThanOrEqual(2 * largest);
    });

    test('a number that cannot be read exactly is an error, never a rounded number', async () => {
      const reading = sql`select cast('9007199254740993' as bigint) as n`;
      expect((await failureOf(reading.execute(stores.one.database.read))).message).toMatch(
        /exactly/,
      );
    });

    test.each([0, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])(
      'an amount of %p is a programming error',
      async (amount) => {
        const tenantId = await wallet();
        expect((await failureOf(book.change(change(tenantId, amount)))).message).toMatch(/wholes/);
      },
    );
  });

  describe('tampering', () => {
    const attempts = [
      ['an update', 'update ledger_entries set amount = 1'],
      ['an update of a note', "update ledger_entries set note = 'nothing to see'"],
      ['a delete', 'delete from ledger_entries'],
    ] as const;

    test.each(attempts)('%s of the ledger is refused by the database', async (_name, text) => {
      const tenantId = await wallet();
      await book.change(change(tenantId, 100));
      const { write } = stores.one.database;
      expect((await failureOf(sql.raw(text).execute(write))).message).toMatch(/append-only/);
      await expectBalanced(tenantId);
    });

    test('replacing an entry under its own id or key is refused', async () => {
      const tenantId = await wallet();
      const booked = await book.change(change(tenantId, 100, { idempotencyKey: 'k' }));
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
    ])('%s is refused by the database', async (_name, assignment) => {
      const tenantId = await wallet();
      const text = `update accounts set ${assignment} where owner = 'tenant:${tenantId}'`;
      expect((await failureOf(sql.raw(text).execute(stores.one.database.write))).message).toMatch(
        /check/i,
      );
      expect(await book.balance(tenantId)).toEqual({ balance: 0, leased: 0 });
    });

    test('text where credits belong is refused by the database', async () => {
      const text = "update accounts set balance = 'many'";
      expect((await failureOf(sql.raw(text).execute(stores.one.database.write))).message).toMatch(
        /cannot store TEXT|invalid input syntax/,
      );
    });

    test('SQL inside notes, keys and ids stays text', async () => {
      const tenantId = await wallet();
      const evil = "'); delete from ledger_entries; --\u2028 $1 ? \\";
      await book.change(change(tenantId, 5, { note: evil, idempotencyKey: evil }));
      const [entry] = await book.entries(tenantId, { limit: 1, offset: 0 });
      expect(entry?.note).toBe(evil);
      expect(await book.balance(evil)).toBeUndefined();
    });
  });
});
