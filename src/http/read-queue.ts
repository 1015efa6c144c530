import { GatewayError, unavailable } from '../core/errors.ts';

interface ReadLimits {
  /** Concurrent reads per tenant. */
  readonly atOnceMax: number;
  readonly waitingMax: number;
  /** How long a read may wait, in case the store hangs. */
  readonly waitMs: number;
}

/**
 * More concurrent reads wouldn't finish sooner, because one thread serializes all responses. While
 * it serializes a response, all chat requests wait.
 */
const defaultLimits: ReadLimits = { atOnceMax: 2, waitingMax: 100, waitMs: 30_000 };

interface TenantQueue {
  running: number;
  /** Start functions of the waiting reads, oldest first. */
  readonly waiting: Set<() => void>;
}

/** Limits the concurrent reads of each tenant. Each tenant has its own FIFO queue. */
export class TenantReadQueue {
  readonly #limits: ReadLimits;
  readonly #queues = new Map<string, TenantQueue>();

  constructor(limits = defaultLimits) {
    this.#limits = limits;
  }

  /** Throws 429 if the queue is full, and 503 if the wait is too long. */
  async run<T>(tenantId: string, clientSignal: AbortSignal, read: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(tenantId) ?? { running: 0, waiting: new Set() };
    this.#queues.set(tenantId, queue);
    if (queue.running < this.#limits.atOnceMax) {
      queue.running += 1;
    } else {
      await this.#waitForTurn(queue, clientSignal);
      // Let the runtime serve other connections between two reads.
      await Bun.sleep(0);
    }
    try {
      return await read();
    } finally {
      this.#finish(tenantId, queue);
    }
  }

  #waitForTurn({ waiting }: TenantQueue, clientSignal: AbortSignal): Promise<void> {
    const { waitingMax, waitMs } = this.#limits;
    if (clientSignal.aborted || waiting.size >= waitingMax) throw tooManyReads();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const cleanUp = () => {
      clearTimeout(timer);
      clientSignal.removeEventListener('abort', onAbort);
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
    // Without this, clients that time out and retry would fill the queue with abandoned reads.
    clientSignal.addEventListener('abort', onAbort);
    waiting.add(start);
    return promise;
  }

  #finish(tenantId: string, queue: TenantQueue): void {
    const [next] = queue.waiting;
    if (next) {
      // The next read takes over the slot.
      next();
      return;
    }
    queue.running -= 1;
    if (queue.running === 0) this.#queues.delete(tenantId);
  }
}

function tooManyReads(): GatewayError {
  const message =
    'This tenant has too many list and report requests running or queued. Send fewer at a time.';
  return new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds: 1 });
}

function waitTooLong(): GatewayError {
  return unavailable(
    "This tenant's earlier list and report requests are taking too long. Try again shortly.",
  );
}

/** Separate queues, so that a list never waits for a download or a list of jobs. */
export function createReadQueues() {
  return {
    lists: new TenantReadQueue(),
    files: new TenantReadQueue(),
    jobs: new TenantReadQueue(),
  };
}
