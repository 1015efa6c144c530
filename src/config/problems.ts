import type { Problem } from '../core/explain.ts';

/** A problem that a variable would mend. Commands that do not use its part can do without it. */
export interface MissingVariable extends Problem {
  readonly variable: string;
}

/** A problem that is not in the file: it is mended where the setting was given. */
export interface OutsideProblem extends Problem {
  readonly place: 'command line' | 'environment';
}

/** Everything wrong with a configuration, told at once. Printed one problem a line, exit code 2. */
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
