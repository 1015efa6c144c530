/**
 * The journal of a killed process can return after the log rows of its requests were removed, for
 * example with a volume that was detached for months, or from a backup. It must not be charged
 * again.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'bun:test';
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newRequestId, randomText } from '../../src/core/ids.ts';
import { Accounting } from '../../src/money/accounting.ts';
import { replayJournals } from '../../src/money/settle/replay.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { LogRetention } from '../../src/store/retention.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { journalLine, unlockJournals } from '../support/money/journal-line.ts';
import { callerOf, settlementOf } from '../support/money/settlements.ts';
import { addCustomer, dayMs, discrepancies } from './bookings.ts';
import { engines } from './engines.ts';

const now = Date.UTC(2028, 4, 10, 12);

describe.each([...engines])('journals that return on $name', ({ empty }) => {
  let store: Store;
  let remove: () => void;
  let tenantId = '';
  let dataDir = '';

  beforeAll(async () => {
    const database = await empty();
    store = await openStore(database.url);
    remove = database.remove;
  }, 120_000);
  afterAll(async () => {
    await store.database.close();
    remove();
  });
  beforeEach(async () => {
    dataDir = mkdtempSync(join(tmpdir(), 'tollgate-returned-'));
    onTestFinished(() => rmSync(dataDir, { recursive: true }));
    ({ tenantId } = await addCustomer(store, 1_000_000));
  });

  /** Returns a copy of the journal of a process that was killed after these requests ended. */
  async function killAfter(
    charges: readonly number[],
    change: Partial<RequestRecord> = {},
  ): Promise<string> {
    const deps = { store: store.ledger, dataDir, log: createLog(() => undefined) } as const;
    const accounting = await Accounting.open({
      ...deps,
      durability: 'journal',
      processId: randomText(8),
      now: () => now,
      onEnded: () => undefined,
    });
    const caller = callerOf(tenantId, { keyId: 'key_1' });
    for (const charge of charges) {
      const hold = await accounting.hold(
        { caller, receivedAt: now },
        { requested: charge, minimum: charge },
      );
      const settlement = settlementOf(newRequestId(), caller, charge, {
        createdAt: now,
        ...change,
      });
      await accounting.dispatched(settlement.record);
      await hold.settle(charge);
      await accounting.saveSettlement(settlement, true);
    }
    const copy = join(dataDir, 'copy');
    cpSync(join(dataDir, 'journal'), copy, { recursive: true });
    unlockJournals(copy);
    await accounting.close();
    return copy;
  }

  async function replay(copy: string): Promise<void> {
    const root = join(dataDir, 'returned');
    cpSync(copy, root, { recursive: true });
    await replayJournals(root, store.ledger, now);
    expect(readdirSync(root)).toEqual([]);
  }

  async function removeLogs(): Promise<void> {
    const rows = store.database.read.selectFrom('request_log').where('tenant_id', '=', tenantId);
    const onFailure = (error: unknown) => {
      throw error;
    };
    await new LogRetention({
      database: store.database,
      keepDays: 30,
      now: () => now + 90 * dayMs,
      onDone: () => undefined,
      onFailure,
    }).run();
    expect(await rows.select('id').execute()).toEqual([]);
  }

  /** Starts again with a complete log, because the tests share a database. */
  async function restartRetention(): Promise<void> {
    await store.database.write
      .deleteFrom('settings')
      .where('name', '=', 'request_log_since_day')
      .execute();
  }

  const balance = async () => (await store.creditStore.balance(tenantId))?.balance;

  test('are not charged again after the log rows were removed', async () => {
    await restartRetention();
    const copy = await killAfter([175_000, 200_000]);
    expect(await balance()).toBe(625_000);
    await removeLogs();
    await replay(copy);
    expect(await balance()).toBe(625_000);
    const { requests } = await store.database.read
      .selectFrom('usage_daily')
      .select((eb) => eb.fn.sum<number>('requests').as('requests'))
      .where('tenant_id', '=', tenantId)
      .executeTakeFirstOrThrow();
    expect(Number(requests)).toBe(2);
    expect(await discrepancies(store)).toEqual([]);
  });

  test('are charged if their process was killed before it booked them', async () => {
    await restartRetention();
    const copy = await killAfter([100]);
    await store.database.write.deleteFrom('journals').execute();
    await store.database.write.deleteFrom('journaled_charges').execute();
    await store.database.write
      .deleteFrom('request_log')
      .where('tenant_id', '=', tenantId)
      .execute();
    expect(await balance()).toBe(999_900);
    await replay(copy);
    expect(await balance()).toBe(999_800);
  });

  test('are not charged again if an earlier version wrote them without numbers', async () => {
    await restartRetention();
    const copy = await killAfter([375]);
    for (const name of readdirSync(copy)) {
      const path = join(copy, name, '00000000.jsonl');
      const lines = readFileSync(path, 'utf8').trim().split('\n');
      const older = lines.map((line) => {
        const { sum, ...rest } = JSON.parse(line);
        delete rest.settlement?.journalNumber;
        return journalLine(JSON.stringify(rest));
      });
      writeFileSync(path, older.join(''));
    }
    await removeLogs();
    await replay(copy);
    expect(await balance()).toBe(999_625);
  });

  test('are not charged if another process repeated and charged the same piece of a job', async () => {
    await restartRetention();
    const copy = await killAfter([375], { jobId: 'job_1' });
    // The journal of the process that died before it booked the piece.
    for (const name of readdirSync(copy)) {
      const path = join(copy, name);
      if (name.includes('~')) renameSync(path, `${path}2`);
    }
    await removeLogs();
    await replay(copy);
    expect(await balance()).toBe(999_625);
    expect(await discrepancies(store)).toEqual([]);
  });

  test('are reported by ledger verify if they were charged twice after all', async () => {
    await restartRetention();
    const copy = await killAfter([100, 200]);
    await removeLogs();
    await store.database.write.deleteFrom('journals').execute();
    await store.database.write.deleteFrom('journaled_charges').execute();
    await replay(copy);
    await store.database.write.deleteFrom('journals').execute();
    await removeLogs();
    await replay(copy);
    expect(await balance()).toBe(999_100);
    expect(await discrepancies(store)).toEqual([
      'Journals: wallets count 4 journaled charges, but only 2 different ones are in the journals.',
    ]);
    await store.database.write.updateTable('journals').set({ booked: '0' }).execute();
    expect(await discrepancies(store)).toContainEqual(
      expect.stringMatching(/^Journal \S+: its numbers are 1 charge, not 2\.$/),
    );
  });
});
