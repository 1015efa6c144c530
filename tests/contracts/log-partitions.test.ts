/** The request log on Postgres has a partition for each period, also if it was one table before. */
import { beforeEach, describe, expect, onTestFinished, test } from 'bun:test';
import { sql } from 'kysely';
import { newRequestId, randomText } from '../../src/core/ids.ts';
import { toSettlementEntry } from '../../src/money/ledger.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { LogPartitioning } from '../../src/store/log-partitioning.ts';
import { migrate } from '../../src/store/migrations/migrate.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { withMigrationConnection } from '../../src/store/postgres/postgres.ts';
import { LogRetention } from '../../src/store/retention.ts';
import { startPooler } from '../support/pooler.ts';
import { startPostgres } from '../support/postgres.ts';
import { addCustomer, book, dayMs, discrepancies, makeRecord } from './bookings.ts';
import { failureOf } from './failure-of.ts';

const now = Date.now();
const today = Math.floor(now / dayMs) * dayMs;

async function emptyUrl(): Promise<string> {
  return (await startPostgres()).createDatabase();
}

async function open(url: string): Promise<Store> {
  const store = await openStore(url);
  onTestFinished(() => store.database.close());
  return store;
}

function partitionsOf({ database }: Store) {
  if (!database.logPartitions) throw new Error('The log has no partitions.');
  return database.logPartitions;
}

const prepare = (store: Store, time = now, keepDays: number | null = null) =>
  partitionsOf(store).prepare(() => time, keepDays);

/** Returns the names of the partitions with the number of rows in each, leaving out empty ones. */
async function filled({ database: { read } }: Store): Promise<Record<string, number>> {
  const { rows } = await sql<{ name: string; rows: number }>`
    select tableoid::regclass::text as name, count(*) as rows from request_log
    group by 1 order by 1`.execute(read);
  return Object.fromEntries(rows.map(({ name, rows }) => [name, rows]));
}

const dayName = (time: number) => new Date(time).toISOString().slice(0, 10).replaceAll('-', '');

const entriesOf = (records: readonly RequestRecord[]) =>
  records.map((record) =>
    toSettlementEntry({ record, writtenOff: 0, keyAccount: null, keyCharge: 0 }),
  );

const arrivedAt = (createdAt: number) => ({ requestId: newRequestId(createdAt), createdAt });

describe('a request log from before partitions', () => {
  let url = '';
  let store: Store;
  let records: RequestRecord[] = [];
  let tenantId = '';

  beforeEach(async () => {
    url = await emptyUrl();
    await withMigrationConnection(url, async (db) => {
      await migrate(db, 'postgres');
      // A log with a row isn't partitioned when a store is opened.
      await db
        .insertInto('tenants')
        .values({ id: 'ten_old', name: 'Old', disabled: 0, created_at: 1, updated_at: 1 })
        .execute();
      const columns = 'input_tokens, cache_read_tokens, cache_write_tokens, output_tokens';
      const fees = 'model_charge, byok_platform_fee, managed_tool_fee, agent_runtime_fee';
      await sql
        .raw(
          `insert into request_log (request_id, tenant_id, key_id, requested_model, status,
            traffic_mode, ${columns}, reasoning_tokens, ${fees}, written_off, searches,
            duration_ms, details, created_at)
          values (decode(repeat('00', 16), 'hex'), 'ten_old', 'key', 'a/b', 'error', 'shared',
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, '{}', 1)`,
        )
        .execute(db);
    });
    store = await open(url);
    await store.database.write.deleteFrom('request_log').execute();
    const customer = await addCustomer(store);
    ({ tenantId } = customer);
    const times = [1, today - 400 * dayMs, now - 5_000, now];
    records = times.map((time) => makeRecord({ ...customer, ...arrivedAt(time) }));
    await book(store, records, now);
    expect(await partitionsOf(store).list()).toBeUndefined();
  });

  const isComplete = async () => {
    for (const record of records) {
      expect(await store.requestLog.find(tenantId, record.requestId)).toEqual(record);
    }
    expect(await discrepancies(store)).toEqual([]);
  };
  const indexes = async () => {
    const { rows } = await sql<{ oid: number }>`
      select indexrelid::bigint as oid from pg_index
      where indrelid = (select tableoid from request_log where created_at = 1)
      order by 1`.execute(store.database.read);
    return rows;
  };

  test('becomes the first partition while processes book, and 3 of them partition it', async () => {
    await sql`create role backup_reader`.execute(store.database.write).catch(() => undefined);
    await sql`grant select on request_log to backup_reader`.execute(store.database.write);
    await sql`create index "by Provider" on request_log (provider)`.execute(store.database.write);
    const before = await indexes();
    const others = [store, await open(url), await open(url)];
    const customer = { tenantId, keyId: records[0]?.keyId ?? '' };
    let isPartitioned = false;
    const booking = others.map(async (other) => {
      while (!isPartitioned) {
        const record = makeRecord({ ...customer, ...arrivedAt(Date.now()) });
        await book(other, [record]);
        records.push(record);
      }
    });
    const outcomes = await Promise.all(others.map((other) => prepare(other)));
    isPartitioned = true;
    await Promise.all(booking);
    expect(outcomes).toContain(true);

    const first = `request_log_before_${dayName(today + 8 * dayMs)}`;
    expect(await filled(store)).toEqual({ [first]: records.length });
    // Nothing was built while the log was locked.
    expect(await indexes()).toEqual(before);
    await isComplete();
    const later = [now + 8 * dayMs, now + 400 * dayMs].map((time) =>
      makeRecord({ ...customer, ...arrivedAt(time) }),
    );
    await book(store, later);
    records.push(...later);
    expect(await filled(store)).toEqual({
      [first]: records.length - 2,
      [`request_log_from_${dayName(today + 8 * dayMs)}`]: 1,
      request_log_default: 1,
    });
    await isComplete();
    const ids = await store.database.read.selectFrom('request_log').select('id').execute();
    expect(new Set(ids.map(({ id }) => id)).size).toBe(records.length);
    const { rows } = await sql<{ readable: boolean }>`
      select distinct has_table_privilege('backup_reader', oid, 'select') as readable
      from pg_class where relname like 'request_log%' and relkind in ('r', 'p')
    `.execute(store.database.read);
    expect(rows).toEqual([{ readable: true }]);
  }, 120_000);

  test('moves requests of clocks that are far ahead to the default partition', async () => {
    const ahead = makeRecord({ tenantId, ...arrivedAt(now + 300 * dayMs) });
    await book(store, [ahead], now);
    records.push(ahead);
    await prepare(store);
    expect(await filled(store)).toMatchObject({ request_log_default: 1 });
    await isComplete();
  }, 120_000);

  test('is partitioned by the next process if one dies after any step', async () => {
    const { write } = store.database;
    // The second step fails, because a request of no tenant is far ahead.
    const stray = { key_id: 'key', tenant_id: 'ten_none' };
    await write.updateTable('request_log').set(stray).where('created_at', '=', now).execute();
    await write
      .updateTable('request_log')
      .set({ created_at: now + 400 * dayMs })
      .where('created_at', '=', now)
      .execute();
    expect((await failureOf(prepare(store))).message).toContain('request_log_before');
    await write
      .updateTable('request_log')
      .set({ created_at: now, tenant_id: tenantId, key_id: records[0]?.keyId ?? '' })
      .where('tenant_id', '=', 'ten_none')
      .execute();
    const booked = makeRecord({ tenantId, ...arrivedAt(now) });
    await book(store, [booked]);
    records.push(booked);
    // The third step renames the log.
    const viewAt = (days: number) => sql.table(`request_log_before_${dayName(now + days * dayMs)}`);
    const [early, late] = [viewAt(8), viewAt(15.5)];
    await sql`create view ${early} as select 1`.execute(write);
    await failureOf(prepare(store));
    await isComplete();
    // Until then, any version books requests that are later than the first partition.
    for (const days of [9, 100]) {
      const ahead = makeRecord({ tenantId, ...arrivedAt(now + days * dayMs) });
      await book(store, [ahead]);
      records.push(ahead);
    }

    // Too little time is left of the first attempt for older processes to be replaced.
    await sql`create view ${late} as select 1`.execute(write);
    await failureOf(prepare(store, now + 7.5 * dayMs));
    await sql`drop view ${early}, ${late}`.execute(write);
    expect(await prepare(store, now + 7.5 * dayMs)).toBe(true);
    const names = (await partitionsOf(store).list())?.map(({ name }) => name) ?? [];
    expect(names).toContain(`request_log_before_${dayName(now + 15.5 * dayMs)}`);
    await isComplete();
  }, 120_000);
});

describe('partitions of the request log', () => {
  let url: string;
  let store: Store;
  let customer: { tenantId: string; keyId: string };

  beforeEach(async () => {
    url = await emptyUrl();
    store = await open(url);
    customer = await addCustomer(store);
  });

  const recordAt = (time: number, change: Partial<RequestRecord> = {}) =>
    makeRecord({ ...customer, ...arrivedAt(time), ...change });
  const names = async () => ((await partitionsOf(store).list()) ?? []).map(({ name }) => name);
  const balance = async () => (await store.creditStore.balance(customer.tenantId))?.balance;
  const removeOld = (time: number, keepDays: number) =>
    new LogRetention({
      ...{ database: store.database, keepDays, now: () => time },
      onDone: () => undefined,
      onFailure: (error) => expect.unreachable(String(error)),
    }).run();

  test('exist 2 weeks ahead, and take over what is in the default partition', async () => {
    const [soon, far] = [recordAt(now + 3 * dayMs), recordAt(now + 900 * dayMs)];
    await book(store, [recordAt(now - 900 * dayMs), recordAt(now), soon, far]);
    const first = `request_log_before_${dayName(today + dayMs)}`;
    expect(await filled(store)).toEqual({ [first]: 2, request_log_default: 2 });
    await prepare(store);
    await prepare(store);
    const [second, third] = [1, 8].map(
      (days) => `request_log_from_${dayName(today + days * dayMs)}`,
    );
    expect((await names()).toSorted()).toEqual(
      [first, 'request_log_default', second, third].map(String),
    );
    expect(await filled(store)).toMatchObject({ [first]: 2, [second ?? '']: 1 });

    // No gateway has run for a while, so no partition is for today.
    const afterBreak = now + 100 * dayMs;
    await book(store, [recordAt(afterBreak), recordAt(afterBreak - dayMs)]);
    await prepare(store, afterBreak, 10);
    expect(await filled(store)).toMatchObject({
      [`request_log_from_${dayName(afterBreak)}`]: 1,
      request_log_default: 2,
    });
    expect((await store.requestLog.find(customer.tenantId, far.requestId))?.createdAt).toBe(
      far.createdAt,
    );
    expect(await discrepancies(store)).toEqual([]);
  }, 120_000);

  test('are removed once all of their requests and charges are old, and not charged again', async () => {
    await prepare(store, now, 10);
    const day = (number: number) => today + number * dayMs;
    const name = (number: number) => `request_log_from_${dayName(day(number))}`;
    const atMidnight = recordAt(day(3) - 1);
    const batches = [[recordAt(now)], [recordAt(day(1))], [atMidnight], [recordAt(day(3) + 5)]];
    for (const records of batches) await book(store, records);
    expect(await filled(store)).toMatchObject({ [name(1)]: 1, [name(2)]: 1, [name(3)]: 1 });

    // The last request of day 2 was charged on day 3.
    await removeOld(day(13), 10);
    expect(await names()).not.toContain(name(1));
    expect(await filled(store)).toEqual({ [name(2)]: 1, [name(3)]: 1 });
    expect(await discrepancies(store)).toEqual([]);
    // The pooler has no connection besides the shared one.
    const pooler = await startPooler(url, 'transaction', 1);
    onTestFinished(pooler.stop);
    store = await open(pooler.url);
    await removeOld(day(14), 10);
    expect(await filled(store)).toEqual({});
    expect(await names()).not.toContain(name(2));
    const before = await balance();
    const again = { processId: 'p', entries: entriesOf([atMidnight]), mayRepeat: true, now };
    await store.ledger.commit({ ...again, isReplay: true });
    expect(await balance()).toBe(before);
    expect(await discrepancies(store)).toEqual([]);
  }, 120_000);

  test('contain a piece of a job once, whichever processes repeat it', async () => {
    await prepare(store, now, 10);
    const piece = recordAt(now, { jobId: 'job_1', requestId: crypto.randomUUID() });
    await book(store, [piece]);
    const before = await balance();
    const repeat = (processId: string, days: number) =>
      store.ledger.commit({
        processId,
        entries: entriesOf([{ ...piece, createdAt: now + days * dayMs }]),
        mayRepeat: false,
        now,
      });
    await Promise.all([repeat('one', 1), repeat('two', 2)]);
    expect(await balance()).toBe(before);
    expect(await discrepancies(store)).toEqual([]);
  }, 120_000);

  test('of another user fill the default partition, and lose old rows one by one', async () => {
    await prepare(store, now, 7);
    const { write } = store.database;
    const role = `user_${randomText(8)}`;
    const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(write);
    const url = new URL((await startPostgres()).url);
    Object.assign(url, { pathname: `/${rows[0]?.name}`, username: role, password: 'p' });
    const rights = 'select, insert, update, delete on all tables in schema public';
    await sql
      .raw(`create role ${role} login password 'p'; grant ${rights} to ${role}`)
      .execute(write);
    store = await open(url.href);
    const reasons: string[] = [];
    const partitioning = new LogPartitioning({
      ...{ partitions: partitionsOf(store), keepDays: 7, now: () => now + 30 * dayMs },
      onPartitioned: () => expect.unreachable('It may not.'),
      onFailure: (reason) => reasons.push(reason),
    });
    await partitioning.run();
    await partitioning.run();
    expect(reasons).toEqual([
      expect.stringMatching(/^The database user can't add partitions, .+\.$/),
    ]);

    await book(store, [recordAt(now), recordAt(now + 2 * dayMs), recordAt(now + 30 * dayMs)]);
    const before = await names();
    await book(store, [recordAt(now + 2 * dayMs)], now + 2 * dayMs);
    await removeOld(now + 20 * dayMs, 7);
    expect(await names()).toEqual(before);
    expect(await filled(store)).toMatchObject({ request_log_default: 1 });
    expect(await discrepancies(store)).toEqual([]);
  }, 120_000);
});
