const isCompiled = Bun.main.startsWith('/$bunfs') || Bun.main.startsWith('B:/~BUN');

/** The words that start this very program again: the compiled executable, or the runtime and us. */
export function ownProgram(): string[] {
  return [process.execPath, ...(isCompiled ? [] : [...process.execArgv, Bun.main])];
}

/** A command of ours as a person types it here; the executable's machine need not have npm. */
export function typed(command: string, options: string): string {
  return [isCompiled ? 'tollgate' : 'npm run tollgate --', command, options].join(' ');
}
