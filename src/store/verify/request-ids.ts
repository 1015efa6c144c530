import { sql } from 'kysely';
import { idText } from '../books/request-log-rows.ts';
import type { Database } from '../database.ts';
import type { Passed, Report } from './verify.ts';

const idsPerPage = 20_000;

/**
 * No request is in the log twice, so none is charged twice. The table itself forbids it; this check
 * is for a database that was edited, restored or damaged.
 */
export async function checkRequestIds(
  { read }: Database,
  report: Report,
  passed: Passed,
): Promise<void> {
  let first: Uint8Array | undefined = new Uint8Array(16);
  while (first) {
    const from: Uint8Array = first;
    const page = read
      .selectFrom('request_log')
      .select('request_id')
      .where('request_id', '>=', from)
      .orderBy('request_id');
    const repeated = await read
      .selectFrom(page.limit(idsPerPage).as('page'))
      .select('request_id')
      .groupBy('request_id')
      .having(sql<boolean>`count(*) > 1`)
      .execute();
    for (const { request_id } of repeated) {
      report(`Request ${idText(request_id)} is in the log more than once.`);
    }
    // The last id of a page begins the next one, or its twin could hide between the two.
    const next = await page
      .limit(1)
      .offset(idsPerPage - 1)
      .executeTakeFirst();
    if (next) passed(idsPerPage - 1);
    first = next && Buffer.compare(next.request_id, from) > 0 ? next.request_id : undefined;
  }
}
