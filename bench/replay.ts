/**
 * Measures how long a new process takes to book the backlog of one that was killed, and checks that
 * each request is booked exactly once. A process settles requests while its database confirms
 * nothing: the first tenth is booked, but the process doesn't learn of it. After SIGKILL, the
 * journal is replayed, put back as from a backup, and replayed again. Run it with
 * `bun bench/replay.ts [--engine sqlite] [--requests 500000]`.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Accounting } from '../src/money/accounting.ts';
import { walletName } from '../src/money/ledger.ts';
import { openStore, type Store } from '../src/store/open.ts';
import { verifyLedger } from '../src/store/verify/verify.ts';
import { createLog } from '../src/telemetry/log.ts';
import { startOwnPostgres } from '../tests/support/postgres.ts';
import {
  chargeCredits,
  createWallet,
  grantedCredits,
  settlement,
  tenantId,
} from './settlements.ts';

/** Settlements per turn of the event loop, like those of a busy process. */
const perTurn = 100;

const { values } = parseArgs({
  options: {
    engine: { type: 'string', default: 'postgres' },
    requests: { type: 'string', default: '500000' },
    // Of the process that is killed.
    database: { type: 'string' },
    folder: { type: 'string', default: '' },
  },
});
const requests = Number(values.requests);

function openAccounting(store: Store, dataDir: string, processId: string): Promise<Accounting> {
  return Accounting.open({
    store: store.ledger,
    dataDir,
    durability: 'journal',
    processId,
    log: createLog(() => {}),
    onEnded: () => {},
  });
}

/** Settles requests until it is killed. */
async function settleAll(database: string): Promise<void> {
  const store = await openStore(database);
  let booked = 0;
  const { ledger } = store;
  const commit = ledger.commit.bind(ledger);
  ledger.commit = async (batch) => {
    if (booked < requests / 10) {
      booked += batch.entries.length;
      await commit(batch);
    }
    throw new Error('The connection was lost.');
  };
  const accounting = await openAccounting(store, values.folder, 'killed');
  for (let done = 0; done < requests; done += perTurn) {
    const turn = Array.from({ length: Math.min(perTurn, requests - done) }, () =>
      accounting.saveSettlement(settlement(), true),
    );
    await Promise.all(turn);
  }
  process.send?.('settled');
}

async function check(store: Store, title: string, ms: number): Promise<void> {
  const { read } = store.database;
  const { rows } = await read
    .selectFrom('request_log')
    .select((eb) => eb.fn.countAll<number>().as('rows'))
    .executeTakeFirstOrThrow();
  const account = await read
    .selectFrom('accounts')
    .select('balance')
    .where('owner', '=', walletName(tenantId))
    .executeTakeFirstOrThrow();
  const { discrepancies } = await verifyLedger(store.database, (line) =>
    process.stderr.write(`${line}\n`),
  );
  const charged = (grantedCredits - account.balance) / chargeCredits;
  process.stdout.write(
    `${title}: ${(ms / 1000).toFixed(1)} s, ${rows} rows, ${charged} charges, ` +
      `${discrepancies} discrepancies\n`,
  );
  if (rows !== requests || charged !== requests || discrepancies > 0) process.exitCode = 1;
}

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-replay-'));
  const postgres =
    values.engine === 'postgres' ? await startOwnPostgres({ durable: true }) : undefined;
  try {
    const database = postgres?.url ?? `sqlite:${join(folder, 'tollgate.db')}`;
    const store = await openStore(database);
    await createWallet(store);
    const settled = Promise.withResolvers<void>();
    const args = ['--database', database, '--folder', folder, '--requests', String(requests)];
    const child = Bun.spawn([process.execPath, import.meta.path, ...args], {
      stdout: 'inherit',
      stderr: 'inherit',
      ipc: () => settled.resolve(),
    });
    void child.exited.then(() => settled.reject(new Error('The process ended early.')));
    await settled.promise;
    child.kill('SIGKILL');
    await child.exited;
    const [journal, backup] = [join(folder, 'journal'), join(folder, 'backup')];
    cpSync(journal, backup, { recursive: true });
    for (const title of ['replay', 'replay of a backup']) {
      cpSync(backup, journal, { recursive: true });
      const startedAt = performance.now();
      const accounting = await openAccounting(store, folder, title.replaceAll(' ', '-'));
      const ms = performance.now() - startedAt;
      await accounting.close();
      await check(store, title, ms);
    }
    await store.database.close();
  } finally {
    await postgres?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

if (values.database === undefined) await main();
else await settleAll(values.database);
