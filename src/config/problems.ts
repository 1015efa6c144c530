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

function formatProblem({ path, message }: ValidationIssue): string {
  return path === '' ? message : `${path} ${message}`;
}
