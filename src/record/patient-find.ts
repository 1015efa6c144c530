import { attemptMsMax } from '../core/bounds.ts';
import { requestIdTime } from '../core/ids.ts';
import type { RequestRecord } from './request-record.ts';

/** Processes book in batches: what another one has answered can be found a moment later. */
const bookedElsewhereMs = 2_000;
const lookAgainMs = 100;

/** Looks again for a request that may have ended just now, in another process. */
export async function patientFind(
  requestId: string,
  find: (requestId: string) => Promise<RequestRecord | undefined>,
): Promise<RequestRecord | undefined> {
  const mayBeWaiting = Math.abs(Date.now() - requestIdTime(requestId)) <= attemptMsMax;
  const giveUpAt = performance.now() + (mayBeWaiting ? bookedElsewhereMs : 0);
  for (;;) {
    const record = await find(requestId);
    if (record || performance.now() >= giveUpAt) return record;
    await Bun.sleep(lookAgainMs);
  }
}
