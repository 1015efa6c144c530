import type { Database } from '../database.ts';
import { checkAccounts } from './accounts.ts';
import { checkDays } from './days.ts';
import { checkFile } from './file.ts';
import { checkRequestIds } from './request-ids.ts';
import { checkStrays } from './strays.ts';

/** Says one discrepancy, in one line. */
export type Report = (line: string) => void;

/** Called during a long check with the kind of rows and how many were checked. */
export type Progress = (what: string, rows: number) => void;

/** Rows after which a long check is told about again. */
const toldRows = 100_000;

/** Called with each page of rows. */
export type Passed = (rows: number) => void;

function counting(what: string, onProgress: Progress): Passed {
  let [passed, told] = [0, 0];
  return (rows) => {
    passed += rows;
    if (passed - told < toldRows) return;
    told = passed;
    onProgress(what, passed);
  };
}

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
export async function verifyBooks(
  database: Database,
  report: Report,
  onProgress: Progress = () => undefined,
): Promise<Verification> {
  let discrepancies = 0;
  const count: Report = (line) => {
    discrepancies += 1;
    report(line);
  };
  if (!(await checkFile(database, count))) {
    return { accounts: 0, entries: 0, requests: 0, discrepancies };
  }
  const passing = (what: string) => counting(what, onProgress);
  const { accounts, entries } = await checkAccounts(database, count, passing('entries'));
  const requests = await checkDays(database, count, passing('requests'));
  await checkRequestIds(database, count, passing('request ids'));
  await checkStrays(database, count);
  return { accounts, entries, requests, discrepancies };
}
