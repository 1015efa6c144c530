import type { PeriodicTask } from '../core/periodic-task.ts';
import type { OperationName } from '../core/request-info.ts';
import { noUsage } from '../core/usage.ts';
import { noCharges } from '../money/price/fee-kinds.ts';
import type { RequestRecord } from './request-record.ts';

/** A request that hasn't ended. */
export interface RunningRequest {
  readonly requestId: string;
  readonly tenantId: string;
  readonly operation: OperationName;
  /** The requested alias, or the first one if the request lists several. */
  readonly model: string;
  readonly streamed: boolean;
  /** Epoch milliseconds of arrival. */
  readonly createdAt: number;
}

/** The running requests of all processes. */
export interface RunningRequestStore {
  /** Replaces what this process reported before. */
  report(processId: string, requests: readonly RunningRequest[], now: number): Promise<void>;
  /**
   * Finds a request that a process reported in the last `runningReportTtlMs`. Without a tenant, the
   * caller must be an operator.
   */
  find(
    requestId: string,
    tenantId: string | null,
    now: number,
  ): Promise<RunningRequest | undefined>;
}

/**
 * How often a process reports its running requests. Shorter ones are never reported, so they cost
 * no write.
 */
const reportMs = 500;
/** A process without changes reports at least this often, so that the others know it is alive. */
const repeatMs = 5_000;
/** After this time, the requests of a process that stopped reporting count as ended. */
export const runningReportTtlMs = 15_000;
/** A reported request stays in the reports until its record is surely committed. */
const lingerMs = 2_000;
/** Bounds the row that a process writes. Further requests are found only in their own process. */
const reportedMax = 5_000;

interface Entry {
  readonly request: RunningRequest;
  readonly startedAt: number;
  endedAt: number | null;
  isReported: boolean;
}

interface RunningRequestsDeps {
  readonly store: RunningRequestStore;
  readonly processId: string;
  readonly isAlone: boolean;
  /** The clock that all processes share. */
  readonly storeNow: () => number;
  /** The clock for durations. */
  readonly now?: () => number;
}

const monotonicNow = () => performance.now();

/**
 * The requests that run in this process, and its reports to the store, by which other processes
 * find them. No request waits for a report.
 */
export class RunningRequests {
  readonly #entries = new Map<string, Entry>();
  readonly #store: RunningRequestStore;
  readonly #processId: string;
  /** True if no other process serves requests, so that nothing needs to be reported. */
  readonly #isAlone: boolean;
  readonly #storeNow: () => number;
  readonly #now: () => number;
  #reported = '[]';
  #reportedAt = 0;

  constructor({ store, processId, isAlone, storeNow, now = monotonicNow }: RunningRequestsDeps) {
    this.#store = store;
    this.#processId = processId;
    this.#isAlone = isAlone;
    this.#storeNow = storeNow;
    this.#now = now;
  }

  started(request: RunningRequest): void {
    const startedAt = this.#now();
    this.#entries.set(request.requestId, { request, startedAt, endedAt: null, isReported: false });
  }

  ended(requestId: string): void {
    const entry = this.#entries.get(requestId);
    if (!entry) return;
    if (entry.isReported) entry.endedAt ??= this.#now();
    else this.#entries.delete(requestId);
  }

  /** Finds a running request of this tenant, or of any tenant for null, in any process. */
  async find(requestId: string, tenantId: string | null): Promise<RunningRequest | undefined> {
    const own = this.#entries.get(requestId)?.request;
    if (own) return tenantId === null || own.tenantId === tenantId ? own : undefined;
    if (this.#isAlone) return undefined;
    return this.#store.find(requestId, tenantId, this.#storeNow());
  }

  /** True if no other process can know more about this request. */
  isOnlyHere(requestId: string): boolean {
    return this.#isAlone || this.#entries.has(requestId);
  }

  periodicTasks(): PeriodicTask[] {
    return this.#isAlone ? [] : [{ everyMs: reportMs, run: () => this.report() }];
  }

  /** Reports the requests that have run for a while, unless nothing changed. */
  async report(): Promise<void> {
    const now = this.#now();
    const entries = this.#entriesToReport(now);
    const requests = entries.map(({ request }) => request);
    const text = JSON.stringify(requests.map(({ requestId }) => requestId));
    const isRepeat = text === this.#reported;
    if (isRepeat && (requests.length === 0 || now - this.#reportedAt < repeatMs)) return;
    for (const entry of entries) entry.isReported = true;
    await this.#store.report(this.#processId, requests, this.#storeNow());
    this.#reported = text;
    this.#reportedAt = now;
  }

  #entriesToReport(now: number): readonly Entry[] {
    const reported: Entry[] = [];
    for (const [id, entry] of this.#entries) {
      const { startedAt, endedAt } = entry;
      if (endedAt !== null && now - endedAt >= lingerMs) this.#entries.delete(id);
      else if (now - startedAt >= reportMs && reported.length < reportedMax) reported.push(entry);
    }
    return reported;
  }

  /** Removes this process's report. Called after the last request. */
  async close(): Promise<void> {
    this.#entries.clear();
    await this.report().catch(() => undefined);
  }
}

/** Returns a running request as a record without an outcome. */
export function unfinishedRecord(request: RunningRequest, now: number): RequestRecord {
  const { requestId, tenantId, operation, model, streamed, createdAt } = request;
  return {
    ...{ requestId, tenantId, operation, streamed, createdAt },
    keyId: '',
    requestedModel: model,
    ...{ model: null, provider: null, error: null, prices: null, note: null, endUser: null },
    ...{ finishReason: null, firstByteMs: 0, cancelled: false, cacheHit: false },
    status: 'success',
    trafficMode: 'shared',
    usage: noUsage,
    usageEstimated: true,
    charges: noCharges,
    searches: 0,
    skills: [],
    durationMs: Math.max(0, now - createdAt),
    attempts: [],
  };
}
