import { jobOutputMs } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';
import { missingObject } from '../core/missing-object.ts';
import { newObjectKey } from '../core/object-key.ts';
import type { Job, Piece } from './job.ts';
import { type ObjectStorage, readObject } from './objects.ts';
import { pieceRequestId } from './piece-id.ts';
import type { JobObjects, JobQueue, Lease } from './queue.ts';
import { IdUsedUp, type JobRunner } from './runner.ts';
import { type Task, taskOf } from './task.ts';

export interface WorkParts {
  readonly queue: JobQueue;
  readonly objects: Pick<JobObjects, 'note' | 'letGo'>;
  readonly storage: ObjectStorage;
  readonly runner: JobRunner;
  now(): number;
}

/** The job belongs to somebody else now, or to nobody: nothing more may be done for it. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';
}

/** The process stops: what runs is finished, and the rest is left to another. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

/** A failure that no retry can mend. */
export class Hopeless extends Error {
  override readonly name = 'Hopeless';
  readonly error: GatewayError;

  constructor(error: GatewayError) {
    super(error.message);
    this.error = error;
  }
}

/** Longer than any job takes; when the job ends, its objects are swept sooner. */
const workingMs = jobOutputMs;

/**
 * Does a job from where it stands: every piece that is written down already is kept, the others
 * are run, then all are joined. Rejects when a piece fails; those that ran beside it are finished
 * and written down first, since they are paid for.
 */
export async function work(
  job: Job,
  lease: Lease,
  signal: AbortSignal,
  parts: WorkParts & { isStopping(): boolean },
): Promise<void> {
  const { queue, storage, runner, now } = parts;
  const mayStart = () => !signal.aborted && !parts.isStopping();
  const pieces = await queue.pieces(job.id);
  const task = await taskOf(job, pieces, runner, storage);
  held(await queue.setPieces(lease, task.count));
  const done = new Map(pieces.map((piece) => [piece.number, piece]));
  const missing = Array.from({ length: task.count }, (_, number) => number).filter(
    (number) => !done.has(number),
  );
  const runOne = async (number: number) => {
    const provider = done.values().next().value?.provider ?? null;
    done.set(number, await runPiece({ job, lease, task, number, provider, signal }, parts));
  };
  const read = async (number: number) => readPiece(done.get(number), storage);
  if (done.size === 0) await runOne(missing.shift() ?? 0);
  // Whether the pieces can be joined shows in the first: if not, nobody pays for the others.
  if (missing.length > 0 && done.has(0)) await task.tryJoin(await read(0)).catch(hopelessIfTold);
  await runAll(missing, task.atOnce, runOne, mayStart);
  signal.throwIfAborted();
  if (done.size < task.count) throw new Interrupted('The worker stops.');
  const outputKey = newObjectKey(task.extension);
  await parts.objects.note(outputKey, job.id, now() + workingMs);
  const outputBytes = await storage.put(outputKey, task.join(read)).catch(hopelessIfTold);
  const endedAt = now();
  const end = { outputKey, outputBytes, expiresAt: endedAt + jobOutputMs, now: endedAt };
  const isHeld = await queue.finish(lease, { status: 'succeeded', ...end });
  if (!isHeld) await parts.objects.letGo(outputKey);
  held(isHeld);
}

interface PieceWork {
  readonly job: Job;
  readonly lease: Lease;
  readonly task: Task;
  readonly number: number;
  readonly provider: string | null;
  readonly signal: AbortSignal;
}

/** Runs one piece and writes down what came of it; only then is it done. */
async function runPiece(
  { job, lease, task, number, provider, signal }: PieceWork,
  { queue, objects, storage, runner, now }: WorkParts,
): Promise<Piece> {
  const run = async () => {
    const requestId = await pieceRequestId(job, number, runner);
    return task.run(number, { requestId, provider, signal });
  };
  const { bytes, costCredits, units, ...made } = await run().catch((thrown: unknown) => {
    if (thrown instanceof IdUsedUp) return run();
    throw thrown;
  });
  const objectKey = newObjectKey(task.extension);
  await objects.note(objectKey, job.id, now() + workingMs);
  await storage.put(objectKey, [bytes]);
  const piece: Piece = { number, objectKey, costCredits, units, provider: made.provider };
  // The piece is made and paid for, so this is tried twice. A store that undid the first try,
  // because we stood still, may take it now; one that has it already refuses, and the next worker
  // finds it.
  const isHeld = await queue.addPiece(lease, piece).catch(() => queue.addPiece(lease, piece));
  if (!isHeld) {
    await queue.addLateUnits(job.id, units);
    await objects.letGo(objectKey);
  }
  held(isHeld);
  return piece;
}

/** A few at a time; after a failure no further one starts, and the failure is passed on. */
async function runAll(
  numbers: readonly number[],
  atOnce: number,
  runOne: (number: number) => Promise<void>,
  mayStart: () => boolean,
): Promise<void> {
  const waiting = [...numbers];
  const failures: unknown[] = [];
  const lane = async () => {
    while (mayStart() && failures.length === 0) {
      const number = waiting.shift();
      if (number === undefined) return;
      await runOne(number).catch((thrown: unknown) => failures.push(thrown));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  if (failures.length > 0) throw failures[0];
}

async function readPiece(piece: Piece | undefined, storage: ObjectStorage): Promise<Uint8Array> {
  const object = piece && (await storage.open(piece.objectKey));
  if (!object) throw missingObject('A finished piece of the job');
  return readObject(object);
}

/** Pieces that do not fit together never will; a full disk may be emptied. */
function hopelessIfTold(thrown: unknown): never {
  throw thrown instanceof GatewayError ? new Hopeless(thrown) : thrown;
}

function held(isHeld: boolean): void {
  if (!isHeld) throw new LeaseLost('The job was cancelled or taken over.');
}
