import { changePollMs } from '../core/bounds.ts';
import type { Directory } from './directory.ts';

/**
 * Notices within half a second that keys or tenants changed, in this process or another, through
 * HTTP or the command line. One cheap read per poll; nothing is pushed, so nothing can get lost.
 */
export class ChangeWatch {
  readonly #directory: Pick<Directory, 'version'>;
  readonly #onChange: () => void;
  #seen: number | undefined;
  #stopped = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(directory: Pick<Directory, 'version'>, onChange: () => void) {
    this.#directory = directory;
    this.#onChange = onChange;
  }

  start(): void {
    this.#timer = setTimeout(() => void this.#poll(), changePollMs);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  /** Looks now; used by those who just made a change and must not wait for the next poll. */
  async check(): Promise<void> {
    const version = await this.#directory.version();
    if (version === this.#seen) return;
    this.#seen = version;
    this.#onChange();
  }

  async #poll(): Promise<void> {
    // While the store is away nobody can change a key either; what is known stays in force.
    await this.check().catch(() => undefined);
    if (!this.#stopped) this.start();
  }
}
