import type { Problem } from '../core/explain.ts';

/**
 * A problem that setting a variable would solve. Commands that do not use the section ignore it.
 */
export interface MissingVariable extends Problem {
  readonly variable: string;
}

/** A problem outside the file: in a command-line option or an environment variable. */
export interface OutsideProblem extends Problem {
  readonly place: 'command line' | 'environment';
}

/** All problems of a configuration. Printed one problem to a line, with exit code 2. */
export class ConfigProblems extends Error {
  override readonly name = 'ConfigProblems';
  readonly problems: readonly Problem[];

  constructor(source: string, problems: readonly (Problem | OutsideProblem)[]) {
    const placeOf = (problem: Problem | OutsideProblem) =>
      'place' in problem ? problem.place : source;
    super(problems.map((problem) => `${placeOf(problem)}: ${line(problem)}`).join('\n'));
    this.problems = problems;
  }
}

function line({ path, message }: Problem): string {
  return path === '' ? message : `${path} ${message}`;
}
