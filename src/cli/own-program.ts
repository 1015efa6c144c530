import type { Flags } from '../config/overrides.ts';

const isCompiled = Bun.main.startsWith('/$bunfs') || Bun.main.startsWith('B:/~BUN');

/** The words that start this very program again: the compiled executable, or the runtime and us. */
export function ownProgram(): string[] {
  return [process.execPath, ...(isCompiled ? [] : [...process.execArgv, Bun.main])];
}

/** The options that lead another command to the same settings and the same data. */
export function samePlace({ config, dataDir }: Flags): string[] {
  return [
    ...(config === undefined ? [] : ['--config', config]),
    ...(dataDir === undefined ? [] : ['--data-dir', dataDir]),
  ];
}

/**
 * A command of ours as a person types it here, about the same data as this one; the executable's
 * machine need not have npm.
 */
export function typed(command: string, options: string, flags: Flags): string {
  const program = isCompiled ? 'tollgate' : 'npm run tollgate --';
  return [program, command, options, ...samePlace(flags).map(inShell)].join(' ');
}

function inShell(word: string): string {
  return /^[\w./:@%+,=~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
