import type { Environment } from '../config/read-file.ts';
import { ownProgram } from './own-program.ts';

const variable = 'BUN_CONFIG_MAX_HTTP_REQUESTS';

/**
 * The runtime allows 256 outgoing requests at once unless this variable says otherwise before the
 * process starts. A gateway with 257 streams would stand still, so the server replaces itself by
 * the same program with the variable set: same process id, a few milliseconds.
 */
export function raiseConnectionLimit(words: readonly string[], environment: Environment): void {
  if (words[0] !== 'serve' || environment[variable] !== undefined) return;
  if (typeof process.execve !== 'function') return;
  process.execve(process.execPath, [...ownProgram(), ...words], {
    ...environment,
    [variable]: '65336',
  });
}
