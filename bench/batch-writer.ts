/**
 * Measures the cost of booking for several commit sizes: the CPU time that all threads use for a
 * settlement from when it enters the batch writer's queue until its row is committed. Run it with
 * `bun bench/batch-writer.ts [--rows-before 2000000]`. Existing rows make booking more expensive.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { toSettlementEntry } from '../src/money/ledger.ts';
import { BatchWriter } from '../src/money/settle/batch-writer.ts';
import { openStore, type Store } from '../src/store/open.ts';
import { verifyLedger } from '../src/store/verify/verify.ts';
import { createWallet, settlement } from './settlements.ts';

/** Settlements per commit at low traffic, at a few hundred requests per second, and at most. */
const commitSizes = [10, 100, 500];
const settlementsPerRound = 10_000;
const rounds = 5;

const { values } = parseArgs({ options: { 'rows-before': { type: 'string', default: '0' } } });
const rowsBefore = Number(values['rows-before']);

let charges = 0;

async function bookAll(
  writer: BatchWriter,
  settlements: number,
  commitSize: number,
): Promise<void> {
  for (let done = 0; done < settlements; done += commitSize) {
    for (let next = 0; next < commitSize; next += 1)
      writer.add(toSettlementEntry(settlement(charges++)));
    await writer.flush();
  }
}

async function measure(writer: BatchWriter, commitSize: number): Promise<number> {
  const before = process.cpuUsage();
  await bookAll(writer, settlementsPerRound, commitSize);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / settlementsPerRound;
}

/** Returns the cost of the benchmark's own code, which creates a settlement without booking it. */
function creationMicroseconds(): number {
  const before = process.cpuUsage();
  let writtenOff = 0;
  for (let next = 0; next < 10 * settlementsPerRound; next += 1)
    writtenOff += settlement(charges++).writtenOff;
  const { user, system } = process.cpuUsage(before);
  return (user + system + writtenOff) / (10 * settlementsPerRound);
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}

async function main(store: Store): Promise<void> {
  await createWallet(store);
  const writer = new BatchWriter({
    store: store.ledger,
    processId: 'bench',
    onCommit: () => {},
    onFailure: (_waiting, error) => {
      throw error;
    },
  });
  await bookAll(writer, Math.max(rowsBefore, 3 * settlementsPerRound), 500);
  const overhead = median(commitSizes.map(creationMicroseconds));
  const measured = new Map<number, number[]>(commitSizes.map((size) => [size, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const size of commitSizes)
      measured.get(size)?.push((await measure(writer, size)) - overhead);
  }
  for (const [size, microseconds] of measured) {
    const cost = `${median(microseconds).toFixed(1).padStart(6)} µs of CPU per settlement`;
    process.stdout.write(`${String(size).padStart(4)} per commit: ${cost}\n`);
  }
  const { discrepancies } = await verifyLedger(store.database, (line) =>
    process.stdout.write(line),
  );
  process.stdout.write(`discrepancies in the ledger: ${discrepancies}\n`);
}

const folder = mkdtempSync(join(tmpdir(), 'tollgate-batch-writer-'));
const store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
try {
  await main(store);
} finally {
  await store.database.close();
  rmSync(folder, { recursive: true });
}
