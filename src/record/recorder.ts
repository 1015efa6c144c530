import type { RequestRecord } from './request-record.ts';

/** The store that the log needs. */
export interface RequestLog {
  append(records: readonly RequestRecord[]): Promise<void>;
  /** Another tenant's request is as absent as none. */
  find(tenantId: string, requestId: string): Promise<RequestRecord | undefined>;
}

/** Rows of one write: larger batches save nothing more, and hold the writer longer. */
const batchMax = 1_000;
/** Records waiting for a store that is away; the oldest go first when it stays away. */
const waitingMax = 100_000;
const pauseMs = 50;

/** Collects finished requests and writes them in batches, off the path of any request. */
export class Recorder {
  readonly #log: RequestLog;
  readonly #onLoss: (lost: number, reason: unknown) => void;
  #waiting: RequestRecord[] = [];
  #writing: Promise<void> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(log: RequestLog, onLoss: (lost: number, reason: unknown) => void) {
    this.#log = log;
    this.#onLoss = onLoss;
  }

  add(record: RequestRecord): void {
    this.#waiting.push(record);
    this.#timer ??= setTimeout(() => void this.#write(), pauseMs);
  }

  /** Resolves when everything added before is readable. */
  async flush(): Promise<void> {
    while (this.#waiting.length > 0 || this.#writing !== undefined) await this.#write();
  }

  async find(tenantId: string, requestId: string): Promise<RequestRecord | undefined> {
    await this.flush();
    return this.#log.find(tenantId, requestId);
  }

  #write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#writeBatches().finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #writeBatches(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, batchMax);
      try {
        await this.#log.append(batch);
        this.#waiting = this.#waiting.slice(batch.length);
      } catch (reason) {
        const surplus = Math.max(0, this.#waiting.length - waitingMax);
        this.#waiting = this.#waiting.slice(surplus);
        this.#onLoss(surplus, reason);
        this.#timer ??= setTimeout(() => void this.#write(), 1_000);
        return;
      }
    }
  }
}
