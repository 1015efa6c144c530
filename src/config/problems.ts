import type { ValidationIssue } from '../core/schema.ts';

/**
 * A problem that setting a variable would solve. Commands that do not use the section ignore it.
 */
export interface MissingVariable extends ValidationIssue {
  readonly variable: string;
}

/** A problem outside the file: in a command-line option or an environment variable. */
export interface ExternalProblem extends ValidationIssue {
  readonly origin: 'command line' | 'environment';
}

/** All problems of a configuration. Printed one problem to a line, with exit code 2. */
export class ConfigProblems extends Error {
  override readonly name = 'ConfigProblems';
  readonly problems: readonly ValidationIssue[];

  constructor(source: string, problems: readonly (ValidationIssue | ExternalProblem)[]) {
    const originOf = (problem: ValidationIssue | ExternalProblem) =>
      'origin' in problem ? problem.origin : source;
    super(problems.map((problem) => `${originOf(problem)}: ${formatProblem(problem)}`).join('\n'));
    this.problems = problems;
  }
}

/**
 * Rejects a credit rate that differs from the one of the existing ledger: it would change what every
 * wallet is worth.
 */
export function requireCreditRate(
  { creditsPerUsd, source }: { readonly creditsPerUsd: number; readonly source: string },
  ledgerRate: number,
): void {
  if (ledgerRate === creditsPerUsd) return;
  const message = `can't change from ${ledgerRate} to ${creditsPerUsd}: the ledger has entries`;
  throw new ConfigProblems(source, [{ path: 'credits_per_usd', message }]);
}

function formatProblem({ path, message }: ValidationIssue): string {
  return path === '' ? message : `${path} ${message}`;
}
