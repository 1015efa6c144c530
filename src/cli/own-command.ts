import type { Flags } from '../config/load.ts';
import type { Environment } from '../config/read-file.ts';

const isCompiled = Bun.main.startsWith('/$bunfs') || Bun.main.startsWith('B:/~BUN');

/** Returns the command that starts this program: the executable, or Bun with the main file. */
export function programCommand(): string[] {
  return [process.execPath, ...(isCompiled ? [] : [...process.execArgv, Bun.main])];
}

/** Returns the options that make another command use the same configuration and data. */
export function configOptions({ config, dataDir }: Flags): string[] {
  return [
    ...(config === undefined ? [] : ['--config', config]),
    ...(dataDir === undefined ? [] : ['--data-dir', dataDir]),
  ];
}

/**
 * Returns a Tollgate command that a user can type, for the same configuration and data. It doesn't
 * use npm if this is the compiled executable, because npm may not be installed.
 */
export function commandLine(command: string, options: string, flags: Flags): string {
  const program = isCompiled ? 'tollgate' : 'npm run tollgate --';
  return [program, command, options, ...configOptions(flags).map(shellQuoted)].join(' ');
}

/** Quotes a word for a shell if necessary. */
export function shellQuoted(word: string): string {
  return /^[\w./:@%+,=~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Settings that Bun reads only from the environment, before any of our code runs. */
const settings = {
  // By default, Bun's `fetch` makes at most 256 calls at once. Behind a proxy, the 257th stream
  // would wait.
  BUN_CONFIG_MAX_HTTP_REQUESTS: '65336',
  // Milliseconds until freed memory is returned to the system. Under load, the process soon needs
  // the memory again, and returning it earlier costs a few percent of CPU time.
  MIMALLOC_PURGE_DELAY: '1000',
  // Threads that read and write files and resolve the names of configured servers, by default one
  // per core. While a name server is silent, each such name occupies a thread.
  UV_THREADPOOL_SIZE: '64',
};

/**
 * Restarts this program in the same process with these variables, unless the operator set them. The
 * process ID stays the same, and the restart takes a few milliseconds.
 */
export function setUpRuntime(argv: readonly string[], environment: Environment): void {
  if (argv[0] !== 'serve' || typeof process.execve !== 'function') return;
  if (Object.keys(settings).every((name) => environment[name] !== undefined)) return;
  const extended = { ...settings, ...environment };
  try {
    process.execve(process.execPath, [...programCommand(), ...argv], extended);
  } catch {
    // For example, the environment is too large. The gateway also works without these settings.
  }
}
