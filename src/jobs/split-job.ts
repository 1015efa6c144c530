import { GatewayError } from '../core/errors.ts';
import { transcriptExtensions } from '../core/media/audio.ts';
import { missingObject } from '../core/stored-object.ts';
import { countCharacters } from '../core/text.ts';
import type { Job, Piece, SpeechJobRequest, TranscriptionJobRequest } from './job.ts';
import { type Chunks, type ObjectStorage, readObject, type StoredObject } from './objects.ts';
import { joinSpeech, tryJoinSpeech } from './pieces/join-speech.ts';
import { joinTranscripts, type TranscriptPart } from './pieces/join-transcripts.ts';
import { planCuts, readCut } from './pieces/split-audio.ts';
import { splitText } from './pieces/split-text.ts';
import type { FinishedPiece, JobRunner, PieceRun } from './runner.ts';

/** Pieces of one job that run at once. */
const concurrentPiecesMax = 3;

/** A job as the pieces it falls into. The same job always falls into the same ones. */
export interface SplitJob {
  readonly count: number;
  /** Pieces that may run at once, after the first has shown who serves the job. */
  readonly concurrency: number;
  run(number: number, pieceRun: PieceRun): Promise<PieceResult>;
  /** The extension of the objects that hold its pieces and its output. */
  readonly extension: string;
  /** Fails when this piece, the first of several, cannot be joined to others. */
  tryJoin(piece: Uint8Array): Promise<void>;
  join(read: (number: number) => Promise<Uint8Array>): Chunks;
}

interface PieceResult extends Omit<FinishedPiece, 'seconds'> {
  readonly units: number;
}

/** `done`: the pieces that are finished, by whatever version. */
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
 * A version whose rules cut elsewhere may have begun the job. Its first pieces show where it cut;
 * of a piece after a gap, only the length tells whether it still fits.
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
    'Another version of the gateway has begun this job and cut its text elsewhere: what it left ' +
    'and the rest do not fit together. Send the text again.';
  throw new GatewayError('internal_error', message);
}

function splitSpeechJob(
  job: Job,
  request: SpeechJobRequest,
  texts: readonly string[],
  runner: JobRunner,
): SplitJob {
  const { limit: _, ...speechOptions } = request;
  const { format } = request;
  const { id: jobId, tenantId, keyId, model } = job;
  return {
    count: texts.length,
    concurrency: concurrentPiecesMax,
    extension: format,
    async run(number, pieceRun) {
      const input = texts[number] ?? '';
      const speechPiece = { jobId, tenantId, keyId, model, ...speechOptions, input };
      const result = await runner.run({ ...speechPiece, ...pieceRun });
      return { ...result, units: countCharacters(input) };
    },
    tryJoin: (piece) => tryJoinSpeech(format, piece),
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
  const { id: jobId, tenantId, keyId, model, inputKey } = job;
  // The key names the kind of audio by its first bytes, whatever the client called it.
  const extension = inputKey.split('.')[1] ?? '';
  return {
    count: cuts.length,
    // One at a time: each piece holds its 24 MB while it is sent.
    concurrency: 1,
    extension: transcriptExtensions[request.format],
    async run(number, pieceRun) {
      const audio = await readCut(file, cuts[number] ?? { from: 0, to: 0, startMs: 0 });
      const transcriptionPiece = { jobId, tenantId, keyId, model, ...request, audio, extension };
      const result = await runner.run({ ...transcriptionPiece, ...pieceRun });
      return { ...result, units: Math.round((result.seconds ?? 0) * 1000) };
    },
    // Nothing to try: a piece that is no transcript was refused when it came.
    async tryJoin() {},
    async *join(read) {
      const transcripts: TranscriptPart[] = [];
      for (const [number, { startMs }] of cuts.entries()) {
        transcripts.push({ body: new TextDecoder().decode(await read(number)), startMs });
      }
      yield new TextEncoder().encode(joinTranscripts(request.format, transcripts));
    },
  };
}
