import { changePollMs } from '../core/bounds.ts';
import type { Chore } from '../core/chore.ts';
import type { Directory } from './directory.ts';

/**
 * Notices within half a second that keys, tenants, credentials or skills changed, in this process
 * or another, through HTTP or the command line. One cheap read per poll; nothing is pushed, so
 * nothing can get lost. While the store cannot be reached, what is known stays in force.
 */
export class ChangeWatch {
  readonly #directory: Pick<Directory, 'version'>;
  readonly #onChange: () => void;
  #seen: number | undefined;

  constructor(directory: Pick<Directory, 'version'>, onChange: () => void) {
    this.#directory = directory;
    this.#onChange = onChange;
  }

  chores(): Chore[] {
    return [{ everyMs: changePollMs, run: () => this.check() }];
  }

  /** Looks now; used by those who just made a change and must not wait for the next poll. */
  async check(): Promise<void> {
    const version = await this.#directory.version();
    if (version === this.#seen) return;
    this.#seen = version;
    this.#onChange();
  }
}
