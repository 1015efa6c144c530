import type { SpeechFormat, TextLimit, TranscriptFormat } from '../core/media/audio-formats.ts';

/** A piece of audio work that outlives the request that asked for it. */
export interface Job {
  readonly id: string;
  readonly tenantId: string;
  /** The key that asked for it, and pays. */
  readonly keyId: string;
  readonly model: string;
  readonly request: JobRequest;
  readonly inputKey: string;
  readonly inputBytes: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly webhookUrl: string | null;
  readonly status: JobStatus;
  /** Claims since the last piece was finished. */
  readonly attempts: number;
  readonly piecesDone: number;
  /** Null until the input has been looked at. */
  readonly piecesTotal: number | null;
  /** What the books took for its pieces: they add each charge in the change that books it. */
  readonly costCredits: number;
  /** Characters of speech, or milliseconds of audio. */
  readonly units: number;
  readonly output: JobOutput | null;
  readonly failure: JobFailure | null;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  /** When a finished output is removed. */
  readonly expiresAt: number | null;
}

export const jobStatuses = [
  'queued',
  'running',
  'succeeded',
  'failed',
  'cancelled',
  'expired',
] as const;
export type JobStatus = (typeof jobStatuses)[number];

export interface JobOutput {
  readonly key: string;
  readonly bytes: number;
}

export interface JobFailure {
  readonly message: string;
  /** Symbol and status of the error table. */
  readonly type: string;
  readonly code: number;
}

export interface SpeechJobRequest {
  readonly type: 'speech';
  readonly voice: string;
  readonly format: SpeechFormat;
  readonly speed: number | null;
  readonly instructions: string | null;
  /** Kept with the job: a worker that takes it over must cut the text at the same places. */
  readonly limit: TextLimit;
}

export interface TranscriptionJobRequest {
  readonly type: 'transcription';
  readonly format: TranscriptFormat;
  readonly language: string | null;
  readonly prompt: string | null;
  readonly temperature: number | null;
  /** Of `timestamp_granularities`: which times `verbose_json` carries. */
  readonly granularities: readonly string[];
}

export type JobRequest = SpeechJobRequest | TranscriptionJobRequest;

/** One finished part of a job. */
export interface Piece {
  readonly number: number;
  /** The key of the piece's result in the object store. */
  readonly objectKey: string;
  readonly costCredits: number;
  readonly units: number;
  /** Who served it. */
  readonly provider: string;
}
