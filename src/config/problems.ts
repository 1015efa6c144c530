import type { ValidationIssue } from '../core/schema.ts';

/** A problem in the configuration. */
export interface ConfigProblem extends ValidationIssue {
  /** The unset variable that causes it. Commands that don't use the section ignore the problem. */
  readonly variable?: string;
  /** Set if the problem is not in the file. */
  readonly origin?: 'command line' | 'environment' | `the ${string} in the store`;
  /** The stored object that has the problem. `path` is then a path in its document. */
  readonly object?: { readonly kind: string; readonly name: string };
}

/** All problems of a configuration. Printed one per line, with exit code 2. */
export class ConfigProblems extends Error {
  override readonly name = 'ConfigProblems';
  readonly problems: readonly ConfigProblem[];

  constructor(source: string, problems: readonly ConfigProblem[]) {
    const line = (problem: ConfigProblem) =>
      `${problem.origin ?? source}: ${formatProblem(problem)}`;
    super(problems.map(line).join('\n'));
    this.problems = problems;
  }
}

/**
 * Rejects a credit rate that differs from that of the existing ledger: it would change what
 * every wallet is worth.
 */
export function requireCreditRate(
  { creditsPerUsd, source }: { readonly creditsPerUsd: number; readonly source: string },
  ledgerRate: number,
): void {
  if (ledgerRate === creditsPerUsd) return;
  const change = `from ${ledgerRate} to ${creditsPerUsd}`;
  const message = `can't change ${change}, because the ledger already has entries`;
  throw new ConfigProblems(source, [{ path: 'credits_per_usd', message }]);
}

function formatProblem({ path, message }: ValidationIssue): string {
  return path === '' ? message : `${path} ${message}`;
}
