import { strict as assert } from 'node:assert';
import { type Kysely, sql } from 'kysely';
import type { GatewayError } from '../../core/errors.ts';
import type { Schema } from '../schema.ts';
import { unusable } from '../unusable.ts';

const oldestServer = 150_000;

/** Refuses, at the start, a server that cannot keep books: later statements would not show it. */
export async function requireServer(db: Kysely<Schema>, target: string): Promise<void> {
  const { version, commit, encoding, only_reads } = await settingsOf(db, target);
  const refuse = (why: string) => {
    throw unusable(`Postgres at ${target} ${why}.`);
  };
  if (!(Number(version) >= oldestServer)) {
    refuse(`is too old: Tollgate needs version ${oldestServer / 10_000} or newer`);
  }
  // The journal lets go of what was committed, so a commit has to last.
  if (commit === 'off') {
    refuse('has synchronous_commit off, so a crash would lose charges: turn it on');
  }
  if (!wholeEncodings.has(encoding)) {
    refuse(`keeps this database in ${encoding}: Tollgate needs one with the encoding UTF8`);
  }
  if (only_reads === 'on') throw onlyReads(target);
}

/** After a failover the same address may lead to a replica, which answers and books nothing. */
export async function requireWritable(db: Kysely<Schema>, target: string): Promise<void> {
  const { rows } = await sql<Pick<ServerSettings, 'only_reads'>>`
    select current_setting('transaction_read_only') as only_reads
  `.execute(db);
  if (rows[0]?.only_reads === 'on') throw onlyReads(target);
}

/** A replica may be promoted soon, so that this is worth waiting for. */
function onlyReads(target: string): GatewayError {
  const message =
    `Postgres at ${target} only reads: it is a replica, or ` +
    'default_transaction_read_only is on.';
  return unusable(message, new ReadsOnly());
}

/** The error that the server itself would give at the first change. */
class ReadsOnly extends Error {
  readonly code = '25006';

  constructor() {
    super('SQLSTATE 25006');
  }
}

/** Encodings that take every character: SQL_ASCII knows no characters and keeps bytes. */
const wholeEncodings: ReadonlySet<string> = new Set(['UTF8', 'SQL_ASCII']);

interface ServerSettings {
  readonly version: string;
  readonly commit: string;
  readonly encoding: string;
  readonly only_reads: string;
}

/** Asked in a transaction: behind a pooler that has no transactions, nothing can be booked. */
async function settingsOf(db: Kysely<Schema>, target: string): Promise<ServerSettings> {
  const ask = sql<ServerSettings>`
    select current_setting('server_version_num') as version,
      current_setting('synchronous_commit') as commit,
      current_setting('server_encoding') as encoding,
      current_setting('transaction_read_only') as only_reads
  `;
  try {
    const { rows } = await db.transaction().execute((change) => ask.execute(change));
    const [settings] = rows;
    assert(settings, 'A select without a table gives one row.');
    return settings;
  } catch (thrown) {
    if (!(thrown instanceof Error && /statement pooling mode/.test(thrown.message))) throw thrown;
    throw unusable(
      `Postgres at ${target} is behind a pooler in statement mode, which has no transactions: ` +
        'use its transaction or session mode.',
    );
  }
}
