import { createHash } from 'node:crypto';
import { formatUuid } from '../core/ids.ts';
import type { SpeechJobRequest, TranscriptionJobRequest } from './job.ts';

/**
 * Runs one piece of a job as an ordinary gateway call, with routing, fallback, limits, log row, and
 * charge.
 *
 * Contract of an implementation:
 * - `requestId` identifies the call in the journal, the log, and the ledger. The ledger accepts
 *   each ID once, so a piece that runs twice under one ID is charged once.
 * - `run` resolves after the call is settled, when its charge can't be lost anymore.
 * - `run` rejects with `RequestIdUsedError` if the ledger accepted the ID from another worker, free
 *   of charge, while the piece ran. The caller must run the piece again under the next ID.
 * - For other failures, `run` rejects with a `GatewayError`. The job is retried later unless the
 *   error is the caller's fault. `retryHelps` doesn't matter, because it is for waiting clients.
 * - An interrupted piece costs nothing, because its audio is discarded and another worker may run
 *   it under the same ID. Only a canceled piece is charged for the audio that was delivered.
 * - `run` ends soon after `signal` aborts with a `StopReason`.
 */
export interface JobRunner {
  run(piece: SpeechPiece | TranscriptionPiece): Promise<FinishedPiece>;
  /** Returns what the ledger has recorded for a call. */
  chargeOf(tenantId: string, requestId: string): Promise<PieceCharge>;
}

export type PieceCharge =
  /** The call hasn't been recorded so far, so its ID can still be used. */
  | { readonly kind: 'unrecorded' }
  /** The call was recorded free of charge, so its ID can't be charged anymore. */
  | { readonly kind: 'free' }
  /** The call was charged, but its result may be lost. `credits` is at least 1. */
  | { readonly kind: 'charged'; readonly credits: number };

/** Why a run was aborted. `lost`: another worker has the job. */
export type StopReason = 'cancelled' | 'lost' | 'timeout' | 'shutdown';

/** Another worker ran the piece under this ID and crashed; the ledger recorded its call first. */
export class RequestIdUsedError extends Error {
  override readonly name = 'RequestIdUsedError';
}

/** The inputs that differ between runs of the same piece. */
export interface PieceRun {
  readonly requestId: string;
  /** The first piece's provider, so that the voice doesn't change. Null for the first piece. */
  readonly provider: string | null;
  readonly signal: AbortSignal;
}

interface JobPiece extends PieceRun {
  readonly jobId: string;
  /** The prices of this moment apply to all pieces. */
  readonly jobCreatedAt: number;
  readonly tenantId: string;
  /** The key that created the job. If it has been revoked, `run` rejects with `invalid_api_key`. */
  readonly keyId: string;
  readonly model: string;
}

export interface SpeechPiece extends JobPiece, Omit<SpeechJobRequest, 'limit'> {
  readonly input: string;
}

export interface TranscriptionPiece extends JobPiece, TranscriptionJobRequest {
  /** At most 25 MiB, in a format that transcription accepts. */
  readonly audio: Uint8Array;
  /** The file type detected from its bytes; the client's filename may be wrong. */
  readonly extension: string;
}

export interface FinishedPiece {
  /** The body that /v1/audio/speech or /v1/audio/transcriptions would send. */
  readonly bytes: Uint8Array;
  /** The billed duration of the audio; null if unknown, as for speech. */
  readonly seconds: number | null;
  readonly costCredits: number;
  readonly provider: string;
}

/** Bounds the search for an unused ID. A piece can't have this many failed attempts. */
const idsPerPieceMax = 100;

/**
 * Returns the request ID for a piece, which is the same for every worker. If a worker crashes after
 * the charge but before storing the result, the next worker reuses the ID, and the ledger charges
 * an ID only once. IDs that were recorded free of charge are skipped.
 */
export async function pieceRequestId(
  job: JobIdentity,
  piece: number,
  runner: Pick<JobRunner, 'chargeOf'>,
): Promise<string> {
  for (let index = 0; index < idsPerPieceMax; index += 1) {
    const id = requestIdOf(job.id, piece, index);
    const charge = await runner.chargeOf(job.tenantId, id);
    if (charge.kind !== 'free') return id;
  }
  throw new Error(`All ${idsPerPieceMax} request IDs for this piece of the job have been used.`);
}

interface JobIdentity {
  readonly id: string;
  readonly tenantId: string;
}

/** Returns a version 4 UUID whose random bits are a hash of the arguments. */
function requestIdOf(jobId: string, piece: number, index: number): string {
  const hash = createHash('sha256').update(`${jobId}/${piece}/${index}`).digest();
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x40;
  hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80;
  return formatUuid(hash.toString('hex', 0, 16));
}
