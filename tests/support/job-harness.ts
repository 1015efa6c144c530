/** Runs job workers on a real store and real files, with a fake provider and ledger. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Caller } from '../../src/core/caller.ts';
import { GatewayError } from '../../src/core/errors.ts';
import type { FormPart } from '../../src/core/form.ts';
import { Secret } from '../../src/core/secret.ts';
import type { Job } from '../../src/jobs/job.ts';
import { JobService, type SpeechModel } from '../../src/jobs/job-service.ts';
import type { ObjectStorage } from '../../src/jobs/object-storage.ts';
import { ObjectLinks } from '../../src/jobs/object-storage.ts';
import type {
  FinishedPiece,
  JobRunner,
  PieceCharge,
  SpeechPiece,
  TranscriptionPiece,
} from '../../src/jobs/runner.ts';
import { JobSweep } from '../../src/jobs/sweep.ts';
import { JobWorker, type WorkerDeps } from '../../src/jobs/worker.ts';
import { FairShareBudget } from '../../src/limits/memory-budget.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import { FileObjects } from '../../src/store/objects/files.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { book, grant, makeRecord } from '../contracts/bookings.ts';
import { addTenant } from '../contracts/engines.ts';
import { wavFile } from './audio-files.ts';
import { callerOf } from './caller.ts';

/**
 * Charges two credits per character. Tenants always have enough credits. Like the real runner, this
 * one charges each request ID once and books the charges in the store.
 */
class FakeRunner implements JobRunner {
  readonly #store: Store;
  readonly speechPieces: SpeechPiece[] = [];
  readonly transcriptionPieces: TranscriptionPiece[] = [];
  readonly #rows = new Map<string, number>();
  /** Runs before each call is answered. A test can replace it with one that waits or fails. */
  onCall: (piece: SpeechPiece | TranscriptionPiece) => Promise<void> = async () => {};
  /** Returns one note of audio per character. A test can replace this function. */
  synthesize: (piece: SpeechPiece) => Uint8Array = ({ input }) => wavFile(input.length);
  transcribe: (piece: TranscriptionPiece) => string = () => JSON.stringify({ text: 'Heard.' });

  constructor(store: Store) {
    this.#store = store;
  }

  /** The sum of all charges, with each request ID counted once. */
  get charged(): number {
    return [...this.#rows.values()].reduce((sum, credits) => sum + credits, 0);
  }

  get requestIds(): string[] {
    return [...this.#rows.keys()];
  }

  /** Records a call without a charge, as the journal replay of a crashed process does. */
  recordFree(requestId: string): void {
    this.#rows.set(requestId, 0);
  }

  async run(piece: SpeechPiece | TranscriptionPiece): Promise<FinishedPiece> {
    if (piece.type === 'speech') this.speechPieces.push(piece);
    else this.transcriptionPieces.push(piece);
    await this.onCall(piece);
    const costCredits = piece.type === 'speech' ? piece.input.length * 2 : 50;
    await this.#book(piece, costCredits);
    const bill = { costCredits, provider: 'fake' };
    if (piece.type === 'speech') return { bytes: this.synthesize(piece), seconds: null, ...bill };
    // Not a whole number of milliseconds, like many durations from providers.
    return { bytes: Buffer.from(this.transcribe(piece)), seconds: 1.5004, ...bill };
  }

  async chargeOf(_tenantId: string, requestId: string): Promise<PieceCharge> {
    const credits = this.#rows.get(requestId);
    if (credits === undefined) return { kind: 'unrecorded' };
    return credits > 0 ? { kind: 'charged', credits } : { kind: 'free' };
  }

  /** Books the charge of a call that was interrupted after delivering part of its answer. */
  async bookInterrupted(requestId: string, credits: number): Promise<void> {
    const piece = this.speechPieces.find((started) => started.requestId === requestId);
    if (!piece) throw new Error(`The call ${requestId} was never started.`);
    await this.#book(piece, credits);
  }

  async #book(piece: SpeechPiece | TranscriptionPiece, credits: number): Promise<void> {
    const { requestId, tenantId, keyId, jobId, type: operation } = piece;
    if (this.#rows.has(requestId)) return;
    this.#rows.set(requestId, credits);
    await grant(this.#store, tenantId, credits);
    const charges = { ...noCharges, modelCharge: credits };
    await book(this.#store, [
      makeRecord({ requestId, tenantId, keyId, jobId, operation, charges }),
    ]);
  }
}

/** Every caller has enough credits. */
const enoughCredits = { checkCredits: async () => undefined };

export class JobHarness {
  readonly runner: FakeRunner;
  readonly service: JobService;
  readonly failures: unknown[] = [];
  readonly store: Store;
  readonly storage: ObjectStorage;
  readonly links = new ObjectLinks(new Secret('a secret of the operator, long enough'));
  readonly uploadBytesMax = 64 * 1024 * 1024;
  readonly uploadBudget = new FairShareBudget(this.uploadBytesMax, 'Too many uploads.');
  readonly #folder: string;
  now = 1_800_000_000_000;
  /** Called right after a job was canceled through this process. */
  onCanceled: (jobId: string) => void = () => {};
  speechModel: SpeechModel;

  /** Opens a harness whose speech model splits texts into pieces of `charactersMax`. */
  static async open(charactersMax = 20): Promise<JobHarness> {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-jobs-'));
    const store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
    return new JobHarness(folder, store, charactersMax);
  }

  private constructor(folder: string, store: Store, charactersMax: number) {
    this.#folder = folder;
    this.store = store;
    this.runner = new FakeRunner(store);
    const limit = { unit: 'characters', max: charactersMax } as const;
    this.speechModel = { limit, isStrict: true, voices: null };
    this.storage = new FileObjects(join(folder, 'objects'), this.links);
    this.service = new JobService({
      jobs: store.jobs.store,
      objects: store.jobs.objects,
      storage: this.storage,
      speechModel: async (_caller, alias) => ({ alias, ...this.speechModel, ...enoughCredits }),
      transcriptionModel: async (_caller, alias) => {
        if (alias === 'test/transcription') return { alias, ...enoughCredits };
        throw new GatewayError('invalid_request_error', 'Unknown model.', { status: 404 });
      },
      urlRejection: async (url) => (url.includes('127.0.0.1') ? 'Private address.' : null),
      onCanceled: (id) => this.onCanceled(id),
      now: () => this.now,
      uploadBudget: this.uploadBudget,
    });
  }

  async close(): Promise<void> {
    await this.store.database.close();
    rmSync(this.#folder, { recursive: true });
  }

  /** Returns a new worker, like that of another process. */
  worker(change: Partial<WorkerDeps> = {}): JobWorker {
    return new JobWorker({
      queue: this.store.jobs.queue,
      objects: this.store.jobs.objects,
      storage: this.storage,
      runner: this.runner,
      now: () => this.now,
      onFailure: (_id, error) => this.failures.push(error),
      ...change,
    });
  }

  /** Claims all jobs that are due and resolves when they have ended. */
  async runJobs(worker = this.worker()): Promise<void> {
    await worker.claim();
    await worker.idle();
  }

  sweep(): Promise<void> {
    const { objects } = this.store.jobs;
    const deps = {
      objects,
      storage: this.storage,
      now: () => this.now,
      onDeleteFailures: unexpected,
    };
    return new JobSweep(deps).run();
  }

  async newCaller(): Promise<Caller> {
    return callerOf(await addTenant(this.store), { keyId: 'key_of_caller' });
  }

  async speech(caller: Caller, input: string, more: object = {}): Promise<string> {
    const body = { model: 'test/speech', input, voice: 'v', response_format: 'wav', ...more };
    return (await this.service.createSpeech(caller, body, 'http://g.test', null)).id;
  }

  async transcription(
    caller: Caller,
    audio: Uint8Array,
    fields: Readonly<Record<string, string>> = {},
  ): Promise<string> {
    const parts = formOf(audio, { model: 'test/transcription', ...fields });
    const form = await this.service.receive(caller.tenantId, parts);
    return (await this.service.createTranscription(caller, form, 'http://g.test', null)).id;
  }

  async job({ tenantId }: Caller, id: string): Promise<Job> {
    const job = await this.store.jobs.store.find(tenantId, id);
    if (!job) throw new Error(`No job has the ID ${id}.`);
    return job;
  }

  async output(caller: Caller, id: string): Promise<Buffer> {
    const { output, status, failure } = await this.job(caller, id);
    const object = output && (await this.storage.open(output.key));
    if (!object) throw new Error(`The job is ${status}: ${failure?.message}`);
    return Buffer.from(await object.body.arrayBuffer());
  }

  /** Returns the names of all stored objects. */
  storedObjects(): string[] {
    return readdirSync(join(this.#folder, 'objects')).toSorted();
  }
}

export async function* formOf(
  audio: Uint8Array | null,
  fields: Readonly<Record<string, string>>,
  filename = 'a.wav',
): AsyncGenerator<FormPart> {
  if (audio) {
    const chunks = (async function* () {
      for (let index = 0; index < audio.length; index += 65_536)
        yield audio.slice(index, index + 65_536);
    })();
    yield { kind: 'file', name: 'file', filename, chunks };
  }
  for (const [name, value] of Object.entries(fields)) yield { kind: 'field', name, value };
}

function unexpected({ reason }: { readonly reason: unknown }): never {
  throw reason;
}
