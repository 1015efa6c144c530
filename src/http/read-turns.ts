import { GatewayError, unavailable } from '../core/errors.ts';

interface ReadBounds {
  /** Reads of one tenant that are under way at once. */
  readonly atOnceMax: number;
  readonly waitingMax: number;
  /** While the store hangs, a read does not wait for all the reads before it. */
  readonly waitMs: number;
}

/**
 * More reads at once do not end sooner, because one thread writes all answers. Chats of all tenants
 * wait on that thread until each answer that is ready has been written.
 */
const usualBounds: ReadBounds = { atOnceMax: 2, waitingMax: 100, waitMs: 30_000 };

interface Line {
  underWay: number;
  /** How each waiting read begins; the first has waited longest. */
  readonly waiting: Set<() => void>;
}

/** A few reads of each tenant at once, first come first served; each tenant has its own line. */
export class ReadTurns {
  readonly #bounds: ReadBounds;
  readonly #lines = new Map<string, Line>();

  constructor(bounds = usualBounds) {
    this.#bounds = bounds;
  }

  /** 429; 503 after too long a wait: no caller is to blame for a store that hangs. */
  async inTurn<T>(tenantId: string, client: AbortSignal, read: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(tenantId) ?? { underWay: 0, waiting: new Set() };
    this.#lines.set(tenantId, line);
    if (line.underWay < this.#bounds.atOnceMax) {
      line.underWay += 1;
    } else {
      await this.#turnIn(line, client);
      // Reads that follow each other without a pause would leave the sockets no time.
      await Bun.sleep(0);
    }
    try {
      return await read();
    } finally {
      this.#end(tenantId, line);
    }
  }

  #turnIn({ waiting }: Line, client: AbortSignal): Promise<void> {
    const { waitingMax, waitMs } = this.#bounds;
    if (client.aborted || waiting.size >= waitingMax) throw tooMany();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      clearTimeout(timer);
      client.removeEventListener('abort', giveUp);
      waiting.delete(begin);
    };
    const begin = () => {
      leave();
      resolve();
    };
    const refuse = (why: GatewayError) => {
      leave();
      reject(why);
    };
    const giveUp = () => refuse(tooMany());
    const timer = setTimeout(() => refuse(tooLong()), waitMs);
    // Clients that ask again after a short time would fill the line with reads nobody waits for.
    client.addEventListener('abort', giveUp);
    waiting.add(begin);
    return promise;
  }

  #end(tenantId: string, line: Line): void {
    const [next] = line.waiting;
    if (next) {
      // The next read takes the place of this one.
      next();
      return;
    }
    line.underWay -= 1;
    if (line.underWay === 0) this.#lines.delete(tenantId);
  }
}

function tooMany(): GatewayError {
  const message = 'This account has too many reads running or waiting; send fewer at a time.';
  return new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds: 1 });
}

function tooLong(): GatewayError {
  return unavailable('Earlier reads of this account take too long; try again shortly.');
}
