import { requestIdPattern } from '../../core/ids.ts';
import {
  type RunningRequest,
  type RunningRequestStore,
  runningReportTtlMs,
} from '../../records/running-requests.ts';
import { SqlRepository } from '../database.ts';

/** After this time, the row of a process that ended without removing it is deleted. */
const rowTtlMs = 3_600_000;

/** One row per process, with its running requests as JSON text. */
export class SqlRunningRequests extends SqlRepository implements RunningRequestStore {
  async report(processId: string, requests: readonly RunningRequest[], now: number): Promise<void> {
    const { write } = this.database;
    if (requests.length === 0) {
      await write
        .deleteFrom('running_requests')
        .where((eb) =>
          eb.or([eb('process_id', '=', processId), eb('reported_at', '<', now - rowTtlMs)]),
        )
        .execute();
      return;
    }
    const row = { requests: JSON.stringify(requests), reported_at: now };
    await write
      .insertInto('running_requests')
      .values({ process_id: processId, ...row })
      .onConflict((conflict) => conflict.column('process_id').doUpdateSet(row))
      .execute();
  }

  async find(
    anyCaseId: string,
    tenantId: string | null,
    now: number,
  ): Promise<RunningRequest | undefined> {
    const requestId = anyCaseId.toLowerCase();
    if (!requestIdPattern.test(requestId)) return undefined;
    const rows = await this.database.read
      .selectFrom('running_requests')
      .select('requests')
      .where('reported_at', '>', now - runningReportTtlMs)
      .where('requests', 'like', `%"${requestId}"%`)
      .execute();
    return rows
      .flatMap(({ requests }) => JSON.parse(requests) as readonly RunningRequest[])
      .find(
        (request) =>
          request.requestId === requestId && (tenantId === null || request.tenantId === tenantId),
      );
  }
}
