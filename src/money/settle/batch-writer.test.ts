import { describe, expect, spyOn, test } from 'bun:test';
import { callerOf, settlementOf } from '../../../tests/support/money/settlements.ts';
import { unbookedMax } from '../../core/bounds.ts';
import type { Booked, LedgerStore, ParsedBatch } from '../ledger.ts';
import { ClaimsInUse, parseBatch, toSettlementEntry } from '../ledger.ts';
import { BatchWriter } from './batch-writer.ts';

const caller = callerOf('ten_1');
const settlement = () => settlementOf(crypto.randomUUID(), caller, 1);
const entry = () => toSettlementEntry(settlement());

/** A drain over a store that does with each batch what the next of these says. */
function drainWith(...answers: ('books' | 'fails')[]) {
  const batches: ParsedBatch[] = [];
  const committed: string[] = [];
  const failures: number[] = [];
  const store: Pick<LedgerStore, 'commit'> = {
    async commit(batch): Promise<readonly Booked[]> {
      batches.push(parseBatch(batch));
      if (answers.shift() === 'fails') throw new Error('away');
      return [];
    },
  };
  const writer = new BatchWriter({
    store,
    processId: 'p',
    onCommit: (_booked, ids) => committed.push(...ids),
    onFailure: (waiting) => failures.push(waiting),
  });
  return { writer, batches, committed, failures };
}

describe('the drain, while claims are being written', () => {
  /** Over a store in which somebody writes the claims of these requests. */
  function drainBeside(inUse: ReadonlyMap<string, string>) {
    const committed: string[] = [];
    const failures: number[] = [];
    const writer = new BatchWriter({
      store: {
        async commit({ entries, mayDefer }) {
          const found = entries.flatMap(({ requestId }): [string, string][] => {
            const tenantId = inUse.get(requestId);
            return tenantId === undefined ? [] : [[requestId, tenantId]];
          });
          if (found.length > 0) throw mayDefer ? new ClaimsInUse(new Map(found)) : new Error();
          return [];
        },
      },
      processId: 'p',
      onCommit: (_booked, ids) => committed.push(...ids),
      onFailure: (waiting) => failures.push(waiting),
    });
    return { writer, committed, failures };
  }

  test('books all others, and those once they are written', async () => {
    const [one, busy, two] = [entry(), entry(), entry()];
    const inUse = new Map([[busy.requestId, 'ten_1']]);
    const { writer, committed, failures } = drainBeside(inUse);
    // One of them twice, as a journal may have it.
    for (const each of [one, busy, { ...busy }, two]) writer.add(each);
    while (committed.length < 2) await Bun.sleep(5);
    expect(committed).toEqual([one.requestId, two.requestId]);
    expect(writer.waiting).toBe(2);
    inUse.clear();
    while (committed.length < 4) await Bun.sleep(5);
    expect(committed.slice(2)).toEqual([busy.requestId, busy.requestId]);
    expect([writer.waiting, failures]).toEqual([0, []]);
  });

  test('is waited for by those whose they are, and by who reads of all', async () => {
    const [busy, other] = [entry(), entry()];
    const inUse = new Map([[busy.requestId, 'ten_1']]);
    const { writer, committed } = drainBeside(inUse);
    for (const each of [busy, other]) writer.add(each);
    const read: string[] = [];
    const own = writer.flush('ten_1').then(() => read.push('own'));
    const all = writer.flush().then(() => read.push('all'));
    await writer.flush('ten_2');
    expect(committed).toEqual([other.requestId]);
    // A second time, when nothing is left but what was put off.
    await writer.flush('ten_2');
    expect(read).toEqual([]);
    inUse.clear();
    await Promise.all([own, all]);
    expect(committed).toEqual([other.requestId, busy.requestId]);
  });

  test('books more than a batch of others beside more than a batch of those', async () => {
    const [busy, others] = [Array.from({ length: 700 }, entry), Array.from({ length: 700 }, entry)];
    const inUse = new Map(busy.map(({ requestId }) => [requestId, 'ten_1']));
    const { writer, committed } = drainBeside(inUse);
    for (const each of [...busy, ...others]) writer.add(each);
    await writer.flush('ten_2');
    expect(committed).toEqual(others.map(({ requestId }) => requestId));
  });
});

describe('the drain', () => {
  test('books by itself, all that came together in one batch', async () => {
    const { writer, batches, committed } = drainWith();
    const all = [settlement(), settlement(), settlement()];
    for (const one of all) writer.add(toSettlementEntry(one));
    while (committed.length < 3) await Bun.sleep(5);
    expect(batches).toHaveLength(1);
    expect(batches[0]).toMatchObject({ processId: 'p', settlements: all, mayRepeat: false });
    expect(writer.waiting).toBe(0);
  });

  test('books by itself what came during a commit that took longer than its pause', async () => {
    const committed: string[] = [];
    const writer: BatchWriter = new BatchWriter({
      store: {
        async commit({ entries }) {
          if (entries[0] === first) {
            writer.add(second);
            await Bun.sleep(300);
          }
          return [];
        },
      },
      processId: 'p',
      onCommit: (_booked, ids) => committed.push(...ids),
      onFailure: () => undefined,
    });
    const [first, second] = [entry(), entry()];
    writer.add(first);
    while (committed.length < 2) await Bun.sleep(5);
    expect(committed).toEqual([first.requestId, second.requestId]);
  });

  test('lags by the time since its oldest request ended', async () => {
    const { writer } = drainWith();
    expect(writer.lagMs(1_000_000)).toBe(0);
    const one = settlement();
    const ended = { ...one, record: { ...one.record, createdAt: 1_000, durationMs: 250 } };
    writer.add(toSettlementEntry(ended));
    writer.add(entry());
    expect(writer.lagMs(5_000)).toBe(3_750);
    await writer.flush();
    expect(writer.lagMs(5_000)).toBe(0);
  });

  test('a flush ends when everything added before is booked', async () => {
    const { writer, committed } = drainWith();
    const one = settlement();
    writer.add(toSettlementEntry(one));
    await writer.flush();
    expect(committed).toEqual([one.record.requestId]);
    await writer.flush();
  });

  test('batches stay small', async () => {
    const { writer, batches } = drainWith();
    for (let i = 0; i < 1_201; i++) writer.add(entry());
    await writer.flush();
    expect(batches.map(({ settlements }) => settlements.length)).toEqual([500, 500, 201]);
  });

  test('a whole batch does not wait for more', async () => {
    const { writer, batches } = drainWith();
    for (let i = 0; i < 499; i++) writer.add(entry());
    await Promise.resolve();
    expect(batches).toHaveLength(0);
    writer.add(entry());
    expect(batches.map(({ settlements }) => settlements.length)).toEqual([500]);
  });

  test('who comes while others are booked waits for company, and a flush is company', async () => {
    const { writer, batches, committed } = drainWith();
    writer.add(entry());
    const flushed = writer.flush();
    for (let i = 0; i < 3; i++) writer.add(entry());
    await flushed;
    expect(committed).toHaveLength(1);
    expect(writer.waiting).toBe(3);
    await writer.flush();
    expect(batches.map(({ settlements }) => settlements.length)).toEqual([1, 3]);
  });

  test('a batch with an id that the books have fails nobody who waits for it', async () => {
    const { writer, batches, committed, failures } = drainWith('fails', 'books');
    const one = settlement();
    writer.add(toSettlementEntry(one));
    await writer.flush();
    expect(batches.map(({ mayRepeat }) => mayRepeat)).toEqual([false, true]);
    expect([committed, failures]).toEqual([[one.record.requestId], []]);
    writer.add(entry());
    await writer.flush();
    expect(batches.at(-1)?.mayRepeat).toBe(false);
  });

  test('after a failure the same comes again as a possible repeat', async () => {
    const { writer, batches, committed, failures } = drainWith('fails', 'fails', 'books', 'books');
    const first = settlement();
    writer.add(toSettlementEntry(first));
    const failed = await writer.flush().catch((error: unknown) => error);
    expect(String(failed)).toContain('away');
    expect(failures).toEqual([1]);
    const second = settlement();
    writer.add(toSettlementEntry(second));
    while (committed.length < 2) await Bun.sleep(5);
    expect(batches.map(({ mayRepeat }) => mayRepeat)).toEqual([false, true, true]);
    expect(batches[2]?.settlements).toEqual([first, second]);
    // The doubt is over: looking up every request costs.
    writer.add(entry());
    await writer.flush();
    expect(batches.at(-1)?.mayRepeat).toBe(false);
  });

  test('tries again by itself', async () => {
    const { writer, committed, failures } = drainWith('fails', 'fails', 'fails', 'books');
    writer.add(entry());
    while (committed.length < 1) await Bun.sleep(5);
    expect(failures).toEqual([1, 1]);
  });

  test('tries again later and later, but every two seconds however long it failed', async () => {
    const { writer, committed } = drainWith(...Array<'fails'>(9).fill('fails'));
    const waits: number[] = [];
    const soon = (run: () => void, ms: number) => {
      waits.push(ms);
      return setImmediate(run);
    };
    const spy = spyOn(globalThis, 'setTimeout');
    spy.mockImplementation(soon as unknown as typeof setTimeout);
    writer.add(entry());
    while (committed.length === 0) await Bun.sleep(1);
    spy.mockRestore();
    // Behind the wait for company.
    expect(waits).toEqual([200, 100, 200, 400, 800, 1_600, 2_000, 2_000, 2_000]);
  });

  test('says when it is full', () => {
    const { writer } = drainWith();
    const one = entry();
    for (let i = 1; i < unbookedMax; i++) writer.add(one);
    expect(writer.isFull).toBe(false);
    writer.add(one);
    expect(writer.isFull).toBe(true);
  });
});
