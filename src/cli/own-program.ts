/** The words that start this very program again: the compiled executable, or the runtime and us. */
export function ownProgram(): string[] {
  const isCompiled = Bun.main.startsWith('/$bunfs') || Bun.main.startsWith('B:/~BUN');
  return [process.execPath, ...(isCompiled ? [] : [...process.execArgv, Bun.main])];
}
