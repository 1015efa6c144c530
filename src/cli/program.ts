import type { Flags } from '../config/load.ts';
import type { Environment } from '../config/read-file.ts';

const isCompiled = Bun.main.startsWith('/$bunfs') || Bun.main.startsWith('B:/~BUN');

/**
 * The command line that starts this program again: the executable, or the runtime and our main
 * file.
 */
export function programCommand(): string[] {
  return [process.execPath, ...(isCompiled ? [] : [...process.execArgv, Bun.main])];
}

/** The options with which another command uses the same configuration and data. */
export function configOptions({ config, dataDir }: Flags): string[] {
  return [
    ...(config === undefined ? [] : ['--config', config]),
    ...(dataDir === undefined ? [] : ['--data-dir', dataDir]),
  ];
}

/**
 * A Tollgate command as a person would type it here, for the same data. Where the compiled
 * executable runs, there may be no npm.
 */
export function commandLine(command: string, options: string, flags: Flags): string {
  const program = isCompiled ? 'tollgate' : 'npm run tollgate --';
  return [program, command, options, ...configOptions(flags).map(shellQuoted)].join(' ');
}

function shellQuoted(word: string): string {
  return /^[\w./:@%+,=~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Settings that the runtime takes only from its environment, before our first line runs. */
const settings = {
  // The runtime's `fetch` makes at most 256 calls at once: behind a proxy, the 257th stream would
  // wait.
  BUN_CONFIG_MAX_HTTP_REQUESTS: '65336',
  // Milliseconds until freed memory goes back to the system. Under load it is needed again at once,
  // and giving it back sooner costs a few percent of the processor.
  MIMALLOC_PURGE_DELAY: '1000',
};

/**
 * Replaces this process by the same program with these variables set, unless the operator set them:
 * same process id, a few milliseconds.
 */
export function setUpRuntime(argv: readonly string[], environment: Environment): void {
  if (argv[0] !== 'serve' || typeof process.execve !== 'function') return;
  if (Object.keys(settings).every((name) => environment[name] !== undefined)) return;
  const more = { ...settings, ...environment };
  try {
    process.execve(process.execPath, [...programCommand(), ...argv], more);
  } catch {
    // The system refuses it, for want of room for the variables for one. All works without, too.
  }
}
