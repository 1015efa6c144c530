import type { Database } from '../database.ts';
import { checkAccounts } from './accounts.ts';
import { checkDays } from './days.ts';
import { checkFile } from './file.ts';
import { checkRequestIds } from './request-ids.ts';
import { checkStrays } from './strays.ts';

/** Says one discrepancy, in one line. */
export type Report = (line: string) => void;

export interface Verification {
  readonly accounts: number;
  readonly entries: number;
  readonly requests: number;
  readonly discrepancies: number;
}

/**
 * Holds the books against each other: accounts, leases, entries, requests and daily sums. Reads in
 * pages, each of them one consistent statement, so it may run beside gateways that are booking.
 */
export async function verifyBooks(database: Database, report: Report): Promise<Verification> {
  let discrepancies = 0;
  const count: Report = (line) => {
    discrepancies += 1;
    report(line);
  };
  if (!(await checkFile(database, count))) {
    return { accounts: 0, entries: 0, requests: 0, discrepancies };
  }
  const { accounts, entries } = await checkAccounts(database, count);
  const requests = await checkDays(database, count);
  await checkRequestIds(database, count);
  await checkStrays(database, count);
  return { accounts, entries, requests, discrepancies };
}
