import { GatewayError, unavailable } from '../core/errors.ts';

interface ReadLimits {
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
const defaultLimits: ReadLimits = { atOnceMax: 2, waitingMax: 100, waitMs: 30_000 };

interface TenantQueue {
  running: number;
  /** How each waiting read begins; the first has waited longest. */
  readonly waiting: Set<() => void>;
}

/** A few reads of each tenant at once, first come first served; each tenant has its own line. */
export class TenantReadQueue {
  readonly #limits: ReadLimits;
  readonly #queues = new Map<string, TenantQueue>();

  constructor(limits = defaultLimits) {
    this.#limits = limits;
  }

  /** 429; 503 after too long a wait: no caller is to blame for a store that hangs. */
  async run<T>(tenantId: string, client: AbortSignal, read: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(tenantId) ?? { running: 0, waiting: new Set() };
    this.#queues.set(tenantId, queue);
    if (queue.running < this.#limits.atOnceMax) {
      queue.running += 1;
    } else {
      await this.#waitForTurn(queue, client);
      // Reads that follow each other without a pause would leave the sockets no time.
      await Bun.sleep(0);
    }
    try {
      return await read();
    } finally {
      this.#finish(tenantId, queue);
    }
  }

  #waitForTurn({ waiting }: TenantQueue, client: AbortSignal): Promise<void> {
    const { waitingMax, waitMs } = this.#limits;
    if (client.aborted || waiting.size >= waitingMax) throw tooManyReads();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const cleanUp = () => {
      clearTimeout(timer);
      client.removeEventListener('abort', onAbort);
      waiting.delete(start);
    };
    const start = () => {
      cleanUp();
      resolve();
    };
    const fail = (error: GatewayError) => {
      cleanUp();
      reject(error);
    };
    const onAbort = () => fail(tooManyReads());
    const timer = setTimeout(() => fail(waitTooLong()), waitMs);
    // Clients that ask again after a short time would fill the line with reads nobody waits for.
    client.addEventListener('abort', onAbort);
    waiting.add(start);
    return promise;
  }

  #finish(tenantId: string, queue: TenantQueue): void {
    const [next] = queue.waiting;
    if (next) {
      // The next read takes the place of this one.
      next();
      return;
    }
    queue.running -= 1;
    if (queue.running === 0) this.#queues.delete(tenantId);
  }
}

function tooManyReads(): GatewayError {
  const message = 'This account has too many reads running or waiting; send fewer at a time.';
  return new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds: 1 });
}

function waitTooLong(): GatewayError {
  return unavailable('Earlier reads of this account take too long; try again shortly.');
}
