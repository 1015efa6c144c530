import { GatewayError } from '../core/errors.ts';
import { transcriptExtensions } from '../core/media/audio.ts';
import { missingObject } from '../core/stored-object.ts';
import { countCharacters } from '../core/text.ts';
import type { Job, Piece, SpeechJobRequest, TranscriptionJobRequest } from './job.ts';
import {
  type Chunks,
  type ObjectStorage,
  readObject,
  type StoredObject,
} from './object-storage.ts';
import { checkJoinable, joinSpeech } from './pieces/join-speech.ts';
import { joinTranscripts, type TranscriptPiece } from './pieces/join-transcripts.ts';
import { planCuts, readCut } from './pieces/split-audio.ts';
import { splitText } from './pieces/split-text.ts';
import type { FinishedPiece, JobRunner, PieceRun } from './runner.ts';

/** Pieces of one job that run at the same time. */
const concurrentPiecesMax = 3;

/** The pieces of a job. Splitting the same job again returns the same pieces. */
export interface SplitJob {
  readonly count: number;
  /** Pieces that may run at the same time, once the first has determined the provider. */
  readonly concurrency: number;
  run(number: number, pieceRun: PieceRun): Promise<PieceResult>;
  /** The file extension of the pieces and of the output. */
  readonly extension: string;
  /** Rejects if the first piece can't be joined to others. Absent if any pieces can be joined. */
  readonly checkJoinable?: (chunk: Uint8Array) => Promise<void>;
  join(read: (number: number) => Promise<Uint8Array>): Chunks;
}

interface PieceResult extends Omit<FinishedPiece, 'seconds'> {
  readonly units: number;
}

/** Splits a job. `done` are its finished pieces, possibly from another version of the gateway. */
export async function splitJob(
  job: Job,
  done: readonly Piece[],
  runner: JobRunner,
  storage: Pick<ObjectStorage, 'open'>,
): Promise<SplitJob> {
  const input = await storage.open(job.inputKey);
  if (!input) throw missingObject('The input of the job');
  const { request } = job;
  if (request.type === 'transcription') return splitTranscriptionJob(job, request, input, runner);
  const text = new TextDecoder().decode(await readObject(input));
  return splitSpeechJob(job, request, splitTexts(text, request, done), runner);
}

/**
 * Splits the text at the same positions as the gateway version that started the job. The leading
 * finished pieces show where it cut. For a finished piece after a gap, only the length is compared.
 */
function splitTexts(text: string, { limit }: SpeechJobRequest, done: readonly Piece[]): string[] {
  const consecutive = done.filter(({ number }, index) => number === index);
  const texts = splitText(
    text,
    limit,
    consecutive.map(({ units }) => units),
  );
  if (done.every(({ number, units }) => countCharacters(texts[number] ?? '') === units)) {
    return texts;
  }
  const message =
    'A different version of the gateway started this job and split its text differently, so the ' +
    'job cannot continue. Create a new job.';
  throw new GatewayError('internal_error', message);
}

/** Returns what all pieces of a job have in common. */
function jobFieldsOf({ id, createdAt, tenantId, keyId, model }: Job) {
  return { jobId: id, jobCreatedAt: createdAt, tenantId, keyId, model };
}

function splitSpeechJob(
  job: Job,
  request: SpeechJobRequest,
  texts: readonly string[],
  runner: JobRunner,
): SplitJob {
  const { limit: _, ...speechOptions } = request;
  const { format } = request;
  const owner = jobFieldsOf(job);
  return {
    count: texts.length,
    concurrency: concurrentPiecesMax,
    extension: format,
    async run(number, pieceRun) {
      const input = texts[number] ?? '';
      const speechPiece = { ...owner, ...speechOptions, input };
      const result = await runner.run({ ...speechPiece, ...pieceRun });
      return { ...result, units: countCharacters(input) };
    },
    checkJoinable: (chunk) => checkJoinable(format, chunk),
    join: (read) => joinSpeech(format, texts.length, read),
  };
}

async function splitTranscriptionJob(
  job: Job,
  request: TranscriptionJobRequest,
  file: StoredObject,
  runner: JobRunner,
): Promise<SplitJob> {
  const cuts = await planCuts(file);
  const owner = jobFieldsOf(job);
  const { inputKey } = job;
  // The extension of the key is the file type detected from the first bytes.
  const extension = inputKey.split('.')[1] ?? '';
  return {
    count: cuts.length,
    // One at a time, because each piece holds up to 24 MB in memory.
    concurrency: 1,
    extension: transcriptExtensions[request.format],
    async run(number, pieceRun) {
      const audio = await readCut(file, cuts[number] ?? { from: 0, to: 0, startMs: 0 });
      const transcriptionPiece = { ...owner, ...request, audio, extension };
      const result = await runner.run({ ...transcriptionPiece, ...pieceRun });
      return { ...result, units: Math.round((result.seconds ?? 0) * 1000) };
    },
    async *join(read) {
      const transcripts: TranscriptPiece[] = [];
      for (const [number, { startMs }] of cuts.entries()) {
        transcripts.push({ body: new TextDecoder().decode(await read(number)), startMs });
      }
      yield new TextEncoder().encode(joinTranscripts(request.format, transcripts));
    },
  };
}
