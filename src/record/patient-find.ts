import { attemptMsMax } from '../core/bounds.ts';
import { requestIdTime } from '../core/ids.ts';
import type { RequestRecord } from './request-record.ts';

/** Processes book in batches: what another one has answered can be found a moment later. */
const bookedElsewhereMs = 2_000;
const lookAgainMs = 100;

/**
 * Looks again for a request that may have ended just now, in another process. Counts looks and not
 * time: while the machine stood still, other processes could not book either.
 */
export async function patientFind(
  requestId: string,
  find: (requestId: string) => Promise<RequestRecord | undefined>,
): Promise<RequestRecord | undefined> {
  const mayBeWaiting = Math.abs(Date.now() - requestIdTime(requestId)) <= attemptMsMax;
  let record = await find(requestId);
  for (let ms = mayBeWaiting ? bookedElsewhereMs : 0; !record && ms > 0; ms -= lookAgainMs) {
    await Bun.sleep(lookAgainMs);
    record = await find(requestId);
  }
  return record;
}
