import { sql } from 'kysely';
import { NumberRanges } from '../../core/number-ranges.ts';
import { pluralize } from '../../core/text.ts';
import type { ReadOnlyDatabase } from '../database.ts';
import type { Report } from './progress.ts';

const journalsPerPage = 500;

/**
 * Checks that every charge of a journal was booked once. Each booking is counted by its wallet, but
 * a journal's row has each number only once, so the sums differ if one was booked twice. Log
 * rows aren't needed, because they may have been removed.
 */
export async function checkJournals(database: ReadOnlyDatabase, report: Report): Promise<void> {
  const { booked, different } = await sums(database);
  if (booked !== different) {
    const charges = pluralize(booked, 'journaled charge', 'journaled charges');
    const ones = pluralize(different, 'different one is', 'different ones are');
    report(`Journals: wallets count ${charges}, but only ${ones} in the journals.`);
  }
  for (let last = ''; ; ) {
    const page = await journalsAfter(database, last);
    for (const { process_id, booked, charges } of page) {
      const { size } = NumberRanges.parse(booked);
      if (size === charges) continue;
      const numbered = pluralize(size, 'charge', 'charges');
      report(`Journal ${process_id}: its numbers are ${numbered}, not ${charges}.`);
    }
    const end = page.at(-1);
    if (!end) return;
    last = end.process_id;
  }
}

/** Reads both sums in one statement, so that both are read at the same point in time. */
async function sums({ read }: ReadOnlyDatabase) {
  const { rows } = await sql<{ readonly booked: number; readonly different: number }>`
    select (select coalesce(sum(charges), 0) from journaled_charges) as booked,
      (select coalesce(sum(charges), 0) from journals) as different`.execute(read);
  return rows[0] ?? { booked: 0, different: 0 };
}

function journalsAfter({ read }: ReadOnlyDatabase, last: string) {
  return read
    .selectFrom('journals')
    .selectAll()
    .where('process_id', '>', last)
    .orderBy('process_id')
    .limit(journalsPerPage)
    .execute();
}
