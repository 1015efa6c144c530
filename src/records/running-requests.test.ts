import { describe, expect, test } from 'bun:test';
import { newRequestId } from '../core/ids.ts';
import { type RunningRequest, RunningRequests } from './running-requests.ts';

/** The reports of two processes with a common clock. */
class TwoProcesses {
  time = 0;
  /** The IDs in each report. */
  readonly reports: string[][] = [];
  readonly #rows = new Map<string, readonly RunningRequest[]>();
  readonly #store = {
    report: async (processId: string, requests: readonly RunningRequest[]) => {
      this.reports.push(requests.map(({ requestId }) => requestId));
      this.#rows.set(processId, requests);
    },
    find: async (requestId: string) =>
      [...this.#rows.values()].flat().find((request) => request.requestId === requestId),
  };
  readonly one = this.#process('one');
  readonly other = this.#process('other');

  #process(processId: string): RunningRequests {
    const now = () => this.time;
    return new RunningRequests({
      ...{ store: this.#store, processId, now },
      isAlone: false,
      storeNow: () => Date.now(),
    });
  }

  async reportAt(time: number): Promise<void> {
    this.time = time;
    await this.one.report();
  }
}

const tenantId = 'default';

function makeRequest(): RunningRequest {
  const model = { operation: 'chat', model: 'acme/chat', streamed: true } as const;
  return { requestId: newRequestId(), tenantId, ...model, createdAt: Date.now() };
}

describe('RunningRequests', () => {
  test('finds a request at once in its process, and in others once it has run for a while', async () => {
    const processes = new TwoProcesses();
    const { one, other } = processes;
    const request = makeRequest();
    one.started(request);
    const { requestId } = request;
    expect(await one.find(requestId, tenantId)).toEqual(request);
    expect(await one.find(requestId, 'rival')).toBeUndefined();
    await processes.reportAt(100);
    expect(await other.find(requestId, tenantId)).toBeUndefined();
    await processes.reportAt(600);
    expect(await other.find(requestId, tenantId)).toEqual(request);
  });

  test('finds an ended request until its record is surely committed', async () => {
    const processes = new TwoProcesses();
    const { one, other } = processes;
    const [short, long] = [makeRequest(), makeRequest()];
    for (const request of [short, long]) one.started(request);
    one.ended(short.requestId);
    await processes.reportAt(1_000);
    one.ended(long.requestId);
    await processes.reportAt(2_000);
    expect(await other.find(long.requestId, tenantId)).toEqual(long);
    await processes.reportAt(3_100);
    expect(await other.find(long.requestId, tenantId)).toBeUndefined();
    expect(processes.reports).toEqual([[long.requestId], []]);
  });

  test('writes nothing while nothing changes, except a sign of life every 5 seconds', async () => {
    const processes = new TwoProcesses();
    await processes.reportAt(500);
    const request = makeRequest();
    processes.one.started(request);
    for (const time of [1_000, 1_500, 2_000, 5_900, 6_000, 6_500]) await processes.reportAt(time);
    expect(processes.reports).toEqual([[request.requestId], [request.requestId]]);
    await processes.one.close();
    expect(processes.reports.at(-1)).toEqual([]);
  });
});
