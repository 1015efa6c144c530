import { createHash } from 'node:crypto';
import { withDashes } from '../core/ids.ts';
import type { JobRunner } from './runner.ts';

/** More failed tries of one piece than a job can make; a bound all the same. */
const triesMax = 100;

/**
 * The request id under which a piece is run. It is the same for everybody who runs the piece: a
 * worker that dies after the charge and before it has written the result down is followed by one
 * that runs the piece again under the same id, and the books take an id once. Only an id whose row
 * says that nothing was charged is left behind for the next.
 */
export async function pieceRequestId(
  job: JobNames,
  piece: number,
  runner: Pick<JobRunner, 'chargeOf'>,
): Promise<string> {
  for (let tries = 0; tries < triesMax; tries += 1) {
    const id = idOf(job.id, piece, tries);
    if ((await runner.chargeOf(job.tenantId, id)) !== 0) return id;
  }
  throw new Error('A piece of a job failed more often than jobs try.');
}

interface JobNames {
  readonly id: string;
  readonly tenantId: string;
}

/** A UUID whose random bits are a hash. */
function idOf(jobId: string, piece: number, tries: number): string {
  const hash = createHash('sha256').update(`${jobId}/${piece}/${tries}`).digest();
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x40;
  hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80;
  return withDashes(hash.toString('hex', 0, 16));
}
