import { failureMessage } from '../../core/failure-code.ts';

/** One thing that is looked at; a line of the doctor's report. */
export interface Check {
  readonly name: string;
  /** Undefined if there is nothing to check, or if another check reports the reason. */
  look(): Promise<Finding | undefined> | Finding | undefined;
}

export interface Finding {
  readonly isWell: boolean;
  /** One sentence, with numbers. */
  readonly found: string;
  /** One sentence with what to do; null if all is well or `found` already says what to do. */
  readonly fix: string | null;
}

/** How long a server may take to answer one check. */
export const patienceMs = 10_000;

export function well(found: string): Finding {
  return { isWell: true, found, fix: null };
}

export function unwell(found: string, fix: string | null = null): Finding {
  return { isWell: false, found, fix };
}

/** Runs the check; an error that it throws becomes a finding, too. */
export async function finding(check: Check): Promise<Finding | undefined> {
  try {
    return await check.look();
  } catch (thrown) {
    return unwell(failureMessage(thrown));
  }
}
