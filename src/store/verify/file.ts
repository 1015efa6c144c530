import { sql } from 'kysely';
import { failureCode } from '../../core/failure-code.ts';
import type { Database } from '../database.ts';
import type { Report } from './verify.ts';

/** Lines that are reported: enough to see how bad the damage is. */
const linesMax = 20;

/**
 * Answers whether the file is free of damage. A damaged page may hide behind an index: the books
 * look right today, and the next booking fails. Postgres has `pg_amcheck` for this.
 */
export async function checkFile({ engine, read }: Database, report: Report): Promise<boolean> {
  if (engine === 'postgres') return true;
  const damage = await lookAt(read);
  for (const line of damage) report(`The database file is damaged: ${line}`);
  return damage.length === 0;
}

async function lookAt(read: Database['read']): Promise<readonly string[]> {
  try {
    const look = sql<{ integrity_check: string }>`pragma integrity_check(${sql.lit(linesMax)})`;
    const { rows } = await look.execute(read);
    return rows.map((row) => row.integrity_check.trim()).filter(isDamage);
  } catch (thrown) {
    if (failureCode(thrown)?.startsWith('SQLITE_CORRUPT')) return ['it cannot be read.'];
    throw thrown;
  }
}

/** A value that breaks a rule of its table was written by somebody: the other checks name it. */
function isDamage(line: string): boolean {
  return line !== 'ok' && !/^(?:CHECK constraint failed|NULL value) in /.test(line);
}
