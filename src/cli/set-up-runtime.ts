import type { Environment } from '../config/read-file.ts';
import { ownProgram } from './own-program.ts';

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
export function setUpRuntime(words: readonly string[], environment: Environment): void {
  if (words[0] !== 'serve' || typeof process.execve !== 'function') return;
  if (Object.keys(settings).every((name) => environment[name] !== undefined)) return;
  const more = { ...settings, ...environment };
  try {
    process.execve(process.execPath, [...ownProgram(), ...words], more);
  } catch {
    // The system refuses it, for want of room for the variables for one. All works without, too.
  }
}
