import { describe, expect, spyOn, test } from 'bun:test';
import { callerOf, settlementOf } from '../../../tests/support/money/settlements.ts';
import { waitUntil } from '../../../tests/support/wait-until.ts';
import { unbookedMax } from '../../core/bounds.ts';
import type { Booked, LedgerStore, ParsedBatch } from '../ledger.ts';
import { ClaimsInUse, parseBatch, toSettlementEntry } from '../ledger.ts';
import { BatchWriter } from './batch-writer.ts';

const caller = callerOf('ten_1');
const settlement = () => settlementOf(crypto.randomUUID(), caller, 1);
const entry = () => toSettlementEntry(settlement());

/** A writer with a store that commits or rejects each batch as listed. */
function writerWith(...results: ('commits' | 'fails')[]) {
  const batches: ParsedBatch[] = [];
  const committed: string[] = [];
  const failures: number[] = [];
  const store: Pick<LedgerStore, 'commit'> = {
    async commit(batch): Promise<readonly Booked[]> {
      batches.push(parseBatch(batch));
      if (results.shift() === 'fails') throw new Error('unavailable');
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

describe('BatchWriter with claims in use', () => {
  /** A writer with a store in which other transactions write the claims of these requests. */
  function writerWithClaimsInUse(inUse: ReadonlyMap<string, string>) {
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

  test('commits all other settlements first, and deferred ones later', async () => {
    const [one, busy, two] = [entry(), entry(), entry()];
    const inUse = new Map([[busy.requestId, 'ten_1']]);
    const { writer, committed, failures } = writerWithClaimsInUse(inUse);
    // One of them twice, as in a replayed journal.
    for (const each of [one, busy, { ...busy }, two]) writer.add(each);
    await waitUntil(() => committed.length >= 2);
    expect(committed).toEqual([one.requestId, two.requestId]);
    expect(writer.waiting).toBe(2);
    inUse.clear();
    await waitUntil(() => committed.length >= 4);
    expect(committed.slice(2)).toEqual([busy.requestId, busy.requestId]);
    expect([writer.waiting, failures]).toEqual([0, []]);
  });

  test('delays only a flush of their tenant or of all tenants', async () => {
    const [busy, other] = [entry(), entry()];
    const inUse = new Map([[busy.requestId, 'ten_1']]);
    const { writer, committed } = writerWithClaimsInUse(inUse);
    for (const each of [busy, other]) writer.add(each);
    const read: string[] = [];
    const own = writer.flush('ten_1').then(() => read.push('own'));
    const all = writer.flush().then(() => read.push('all'));
    await writer.flush('ten_2');
    expect(committed).toEqual([other.requestId]);
    // Again, when only deferred settlements are left.
    await writer.flush('ten_2');
    expect(read).toEqual([]);
    inUse.clear();
    await Promise.all([own, all]);
    expect(committed).toEqual([other.requestId, busy.requestId]);
  });

  test('commits other settlements even if more than a batch is deferred', async () => {
    const [busy, others] = [Array.from({ length: 700 }, entry), Array.from({ length: 700 }, entry)];
    const inUse = new Map(busy.map(({ requestId }) => [requestId, 'ten_1']));
    const { writer, committed } = writerWithClaimsInUse(inUse);
    for (const each of [...busy, ...others]) writer.add(each);
    await writer.flush('ten_2');
    expect(committed).toEqual(others.map(({ requestId }) => requestId));
    // Otherwise, the writer's timer keeps running during later tests, which may record timers.
    inUse.clear();
    await writer.flush();
    expect(writer.waiting).toBe(0);
  });
});

describe('BatchWriter', () => {
  test('commits settlements by itself, in one batch', async () => {
    const { writer, batches, committed } = writerWith();
    const all = [settlement(), settlement(), settlement()];
    for (const one of all) writer.add(toSettlementEntry(one));
    await waitUntil(() => committed.length >= 3);
    expect(batches).toHaveLength(1);
    expect(batches[0]).toMatchObject({ processId: 'p', settlements: all, mayRepeat: false });
    expect(writer.waiting).toBe(0);
  });

  test('commits settlements added during a slow commit by itself', async () => {
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
    await waitUntil(() => committed.length >= 2);
    expect(committed).toEqual([first.requestId, second.requestId]);
  });

  test('reports the time since its oldest request ended as lag', async () => {
    const { writer } = writerWith();
    expect(writer.lagMs(1_000_000)).toBe(0);
    const one = settlement();
    const ended = { ...one, record: { ...one.record, createdAt: 1_000, durationMs: 250 } };
    writer.add(toSettlementEntry(ended));
    writer.add(entry());
    expect(writer.lagMs(5_000)).toBe(3_750);
    await writer.flush();
    expect(writer.lagMs(5_000)).toBe(0);
  });

  test('resolves a flush once everything added before is committed', async () => {
    const { writer, committed } = writerWith();
    const one = settlement();
    writer.add(toSettlementEntry(one));
    await writer.flush();
    expect(committed).toEqual([one.record.requestId]);
    await writer.flush();
  });

  test('commits more settlements per batch while more are waiting, up to 2,000', async () => {
    const { writer, batches } = writerWith();
    for (let i = 0; i < 3_201; i++) writer.add(entry());
    await writer.flush();
    expect(batches.map(({ settlements }) => settlements.length)).toEqual([500, 2_000, 701]);
  });

  test('commits a full batch at once', async () => {
    const { writer, batches } = writerWith();
    for (let i = 0; i < 499; i++) writer.add(entry());
    await Promise.resolve();
    expect(batches).toHaveLength(0);
    writer.add(entry());
    expect(batches.map(({ settlements }) => settlements.length)).toEqual([500]);
  });

  test('leaves settlements added during a flush for the next batch', async () => {
    const { writer, batches, committed } = writerWith();
    writer.add(entry());
    const flushed = writer.flush();
    for (let i = 0; i < 3; i++) writer.add(entry());
    await flushed;
    expect(committed).toHaveLength(1);
    expect(writer.waiting).toBe(3);
    await writer.flush();
    expect(batches.map(({ settlements }) => settlements.length)).toEqual([1, 3]);
  });

  test('retries a batch with a committed id without failing a flush', async () => {
    const { writer, batches, committed, failures } = writerWith('fails', 'commits');
    const one = settlement();
    writer.add(toSettlementEntry(one));
    await writer.flush();
    expect(batches.map(({ mayRepeat }) => mayRepeat)).toEqual([false, true]);
    expect([committed, failures]).toEqual([[one.record.requestId], []]);
    writer.add(entry());
    await writer.flush();
    expect(batches.at(-1)?.mayRepeat).toBe(false);
  });

  test('marks a batch as a possible repeat after a failure', async () => {
    const { writer, batches, committed, failures } = writerWith(
      'fails',
      'fails',
      'commits',
      'commits',
    );
    const first = settlement();
    writer.add(toSettlementEntry(first));
    const failed = await writer.flush().catch((error: unknown) => error);
    expect(String(failed)).toContain('unavailable');
    expect(failures).toEqual([1]);
    const second = settlement();
    writer.add(toSettlementEntry(second));
    await waitUntil(() => committed.length >= 2);
    expect(batches.map(({ mayRepeat }) => mayRepeat)).toEqual([false, true, true]);
    expect(batches[2]?.settlements).toEqual([first, second]);
    // Later batches don't look up every request.
    writer.add(entry());
    await writer.flush();
    expect(batches.at(-1)?.mayRepeat).toBe(false);
  });

  test('retries failed commits by itself', async () => {
    const { writer, committed, failures } = writerWith('fails', 'fails', 'fails', 'commits');
    writer.add(entry());
    await waitUntil(() => committed.length >= 1);
    expect(failures).toEqual([1, 1]);
  });

  test('retries with growing delays of at most 2 seconds', async () => {
    const { writer, committed } = writerWith(...Array<'fails'>(9).fill('fails'));
    const waits: number[] = [];
    const soon = (run: () => void, ms: number) => {
      waits.push(ms);
      return setImmediate(run);
    };
    const spy = spyOn(globalThis, 'setTimeout');
    spy.mockImplementation(soon as unknown as typeof setTimeout);
    writer.add(entry());
    await waitUntil(() => committed.length > 0);
    spy.mockRestore();
    // The first delay is the time that a batch waits for more settlements.
    expect(waits).toEqual([200, 100, 200, 400, 800, 1_600, 2_000, 2_000, 2_000]);
  });

  test('reports when it is full', () => {
    const { writer } = writerWith();
    const one = entry();
    for (let i = 1; i < unbookedMax; i++) writer.add(one);
    expect(writer.isFull).toBe(false);
    writer.add(one);
    expect(writer.isFull).toBe(true);
  });
});
