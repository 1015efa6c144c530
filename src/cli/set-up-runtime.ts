import type { Environment } from '../config/read-file.ts';
import { ownProgram } from './own-program.ts';

/** What the runtime reads from its environment before our first line, and nowhere else. */
const settings = {
  // Its own client allows 256 calls at once: behind a proxy, the 257th stream would stand still.
  BUN_CONFIG_MAX_HTTP_REQUESTS: '65336',
  // Milliseconds until freed memory goes back to the system. Under load it is wanted again at once,
  // and giving it back sooner costs a few percent of the processor.
  MIMALLOC_PURGE_DELAY: '1000',
};

/**
 * The server replaces itself by the same program with these variables set, as far as the operator
 * did not set them: same process id, a few milliseconds.
 */
export function setUpRuntime(words: readonly string[], environment: Environment): void {
  if (words[0] !== 'serve' || typeof process.execve !== 'function') return;
  if (Object.keys(settings).every((name) => environment[name] !== undefined)) return;
  process.execve(process.execPath, [...ownProgram(), ...words], { ...settings, ...environment });
}
