import type { Problem } from '../core/explain.ts';

/** What a variable would mend. Who does not use the part that it is for need not have it set. */
export interface MissingVariable extends Problem {
  readonly variable: string;
}

/** What no file says: it is mended where it was said. */
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
