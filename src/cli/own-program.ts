import type { Flags } from '../config/overrides.ts';

const isCompiled = Bun.main.startsWith('/$bunfs') || Bun.main.startsWith('B:/~BUN');

/**
 * The command line that starts this program again: the executable, or the runtime and our main
 * file.
 */
export function ownProgram(): string[] {
  return [process.execPath, ...(isCompiled ? [] : [...process.execArgv, Bun.main])];
}

/** The options with which another command uses the same configuration and data. */
export function samePlace({ config, dataDir }: Flags): string[] {
  return [
    ...(config === undefined ? [] : ['--config', config]),
    ...(dataDir === undefined ? [] : ['--data-dir', dataDir]),
  ];
}

/**
 * A Tollgate command as a person would type it here, for the same data. Where the compiled
 * executable runs, there may be no npm.
 */
export function typed(command: string, options: string, flags: Flags): string {
  const program = isCompiled ? 'tollgate' : 'npm run tollgate --';
  return [program, command, options, ...samePlace(flags).map(inShell)].join(' ');
}

function inShell(word: string): string {
  return /^[\w./:@%+,=~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
