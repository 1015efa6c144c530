import { createHash } from 'node:crypto';
import { formatUuid } from '../core/ids.ts';
import type { SpeechJobRequest, TranscriptionJobRequest } from './job.ts';

/**
 * How a job gets one piece of its work done: as one ordinary call of the gateway's story, with its
 * routing, fallback, limits, log row and charge. Built in wire/ from the speech and transcription
 * operations.
 *
 * What an implementation promises:
 * - `requestId` is the id of the call: in the journal, the log and the ledger. The books take each
 *   id once, so a piece that is run twice under one id is charged once.
 * - It resolves only when the call is settled, that is when its charge can no longer be lost.
 * - It rejects with `IdUsedUp` when the books took the id without our charge while the piece ran:
 *   it has to be run again under the next.
 * - Else it rejects with a `GatewayError`. What is not the caller's fault may pass: the job tries
 *   again later, whatever `retryHelps` says to clients who wait.
 * - A piece that breaks off costs nothing: what came of it reaches nobody, and another worker may
 *   run it under the same id. Only a cancelled piece is charged for what was delivered.
 * - It ends soon after `signal` aborts, with a `StopReason`.
 */
export interface JobRunner {
  run(piece: SpeechPiece | TranscriptionPiece): Promise<FinishedPiece>;
  /**
   * What the books took for a call; null when they have no row of it, or none yet. Zero: the id is
   * used up. More: it is paid for, though its result may be lost.
   */
  chargeOf(tenantId: string, requestId: string): Promise<number | null>;
}

/** Why a run was broken off: decides what becomes of the job. `lost`: another worker has it. */
export type StopReason = 'cancelled' | 'lost' | 'timeout' | 'shutdown';

/** Another worker ran the piece under this id and died; the books took its end before ours. */
export class RequestIdUsedError extends Error {
  override readonly name = 'IdUsedUp';
}

/** One run of a piece: what differs from run to run. */
export interface PieceRun {
  readonly requestId: string;
  /** Set from the second piece on: a voice must not change in the middle of a text. */
  readonly provider: string | null;
  readonly signal: AbortSignal;
}

interface JobPiece extends PieceRun {
  readonly jobId: string;
  readonly tenantId: string;
  /** The key that asked for the job. It may have been revoked since: `invalid_api_key`. */
  readonly keyId: string;
  readonly model: string;
}

export interface SpeechPiece extends JobPiece, Omit<SpeechJobRequest, 'limit'> {
  readonly input: string;
}

export interface TranscriptionPiece extends JobPiece, TranscriptionJobRequest {
  /** At most 25 MiB, in one of the formats that transcription takes. */
  readonly audio: Uint8Array;
  /** What the file really is, not what the client called it. */
  readonly extension: string;
}

export interface FinishedPiece {
  /** The body as a client of /v1/audio/speech or /v1/audio/transcriptions gets it. */
  readonly bytes: Uint8Array;
  /** How long the audio was, as billed; null when nobody knows, as of speech. */
  readonly seconds: number | null;
  readonly costCredits: number;
  readonly provider: string;
}

/** More failed tries of one piece than a job can make; a bound all the same. */
const triesMax = 100;

/**
 * The request id under which a piece is run. It is the same for everybody who runs the piece: a
 * worker that dies after the charge and before it has written the result down is followed by one
 * that runs the piece again under the same id, and the books take an id once. Only an id whose row
 * says that nothing was charged is left behind for the next.
 */
export async function pieceRequestId(
  job: JobIdentity,
  piece: number,
  runner: Pick<JobRunner, 'chargeOf'>,
): Promise<string> {
  for (let tries = 0; tries < triesMax; tries += 1) {
    const id = requestIdOf(job.id, piece, tries);
    if ((await runner.chargeOf(job.tenantId, id)) !== 0) return id;
  }
  throw new Error('A piece of a job failed more often than jobs try.');
}

interface JobIdentity {
  readonly id: string;
  readonly tenantId: string;
}

/** A UUID whose random bits are a hash. */
function requestIdOf(jobId: string, piece: number, tries: number): string {
  const hash = createHash('sha256').update(`${jobId}/${piece}/${tries}`).digest();
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x40;
  hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80;
  return formatUuid(hash.toString('hex', 0, 16));
}
