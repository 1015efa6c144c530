import type { Settlement } from '../../ledger/ledger-store.ts';
import { totalCharge } from '../../record/request-record.ts';
import type { StoreTransaction } from '../database.ts';

/**
 * Adds what the pieces of jobs are charged to the costs of these jobs. To be called by the
 * transaction that books the charges: it has locked the accounts that pay them, so that no two of
 * them change the same jobs at once.
 */
export async function addJobCosts(
  change: StoreTransaction,
  settlements: readonly Settlement[],
): Promise<void> {
  const costs = new Map<string, number>();
  for (const { record } of settlements) {
    const { jobId, charges } = record;
    if (jobId === undefined) continue;
    const credits = totalCharge(charges);
    if (credits > 0) costs.set(jobId, (costs.get(jobId) ?? 0) + credits);
  }
  for (const [jobId, credits] of costs) {
    await change
      .updateTable('jobs')
      .set((of) => ({ cost: of('cost', '+', credits) }))
      .where('id', '=', jobId)
      .execute();
  }
}
