/** Job workers on a real store and real files, with a provider and books played by the test. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Caller } from '../../src/core/caller.ts';
import { GatewayError } from '../../src/core/errors.ts';
import type { FormPart } from '../../src/core/form.ts';
import { Secret } from '../../src/core/secret.ts';
import type { Job } from '../../src/jobs/job.ts';
import { JobService, type SpeechModel } from '../../src/jobs/job-service.ts';
import type { ObjectStorage } from '../../src/jobs/objects.ts';
import { ObjectLinks } from '../../src/jobs/objects.ts';
import type {
  FinishedPiece,
  JobRunner,
  SpeechPiece,
  TranscriptionPiece,
} from '../../src/jobs/runner.ts';
import { JobSweep } from '../../src/jobs/sweep.ts';
import { JobWorker, type WorkerDeps } from '../../src/jobs/worker.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import { FileObjects } from '../../src/store/objects/files.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { book, grant, makeRecord } from '../contracts/bookings.ts';
import { addTenant } from '../contracts/engines.ts';
import { wavFile } from './audio-files.ts';
import { callerOf } from './caller.ts';

/**
 * Charges two credits per character, which the tenant always has. Like a real runner it takes each
 * request id once, and its charges are in the books of the store.
 */
class PlayedRunner implements JobRunner {
  readonly #store: Store;
  readonly spoken: SpeechPiece[] = [];
  readonly heard: TranscriptionPiece[] = [];
  readonly #rows = new Map<string, number>();
  /** Runs before each call is answered; a test may make it wait or fail. */
  onCall: (piece: SpeechPiece | TranscriptionPiece) => Promise<void> = async () => {};
  /** One note of sound for each character, unless a test wants another answer. */
  speak: (piece: SpeechPiece) => Uint8Array = ({ input }) => wavFile(input.length);
  hear: (piece: TranscriptionPiece) => string = () => JSON.stringify({ text: 'Heard.' });

  constructor(store: Store) {
    this.#store = store;
  }

  /** The sum of all charges, each request id once. */
  get charged(): number {
    return [...this.#rows.values()].reduce((sum, credits) => sum + credits, 0);
  }

  get requestIds(): string[] {
    return [...this.#rows.keys()];
  }

  /** Books what the journal of a dead process leaves of a call that it had begun: no charge. */
  died(requestId: string): void {
    this.#rows.set(requestId, 0);
  }

  async run(piece: SpeechPiece | TranscriptionPiece): Promise<FinishedPiece> {
    if (piece.type === 'speech') this.spoken.push(piece);
    else this.heard.push(piece);
    await this.onCall(piece);
    const costCredits = piece.type === 'speech' ? piece.input.length * 2 : 50;
    await this.#book(piece, costCredits);
    const bill = { costCredits, provider: 'played' };
    if (piece.type === 'speech') return { bytes: this.speak(piece), seconds: null, ...bill };
    // No whole number of milliseconds, as providers measure.
    return { bytes: Buffer.from(this.hear(piece)), seconds: 1.5004, ...bill };
  }

  async chargeOf(_tenantId: string, requestId: string): Promise<number | null> {
    return this.#rows.get(requestId) ?? null;
  }

  /** Books a call that broke off after it had delivered this many credits' worth. */
  async brokenOff(requestId: string, credits: number): Promise<void> {
    const piece = this.spoken.find((begun) => begun.requestId === requestId);
    if (!piece) throw new Error(`The call ${requestId} was never begun.`);
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

/** Nobody at the bench lacks credits. */
const solvent = { checkCredits: async () => undefined };

export class JobBench {
  readonly runner: PlayedRunner;
  readonly desk: JobService;
  readonly failures: unknown[] = [];
  readonly store: Store;
  readonly storage: ObjectStorage;
  readonly links = new ObjectLinks(new Secret('a secret of the operator, long enough'));
  readonly #folder: string;
  now = 1_800_000_000_000;
  /** Called at once when a job is cancelled; other processes find out by themselves. */
  onCancelled: (jobId: string) => void = () => {};
  speechModel: SpeechModel;

  /** Texts are spoken in pieces of at most so many characters. */
  static async open(charactersMax = 20): Promise<JobBench> {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-jobs-'));
    const store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
    return new JobBench(folder, store, charactersMax);
  }

  private constructor(folder: string, store: Store, charactersMax: number) {
    this.#folder = folder;
    this.store = store;
    this.runner = new PlayedRunner(store);
    const limit = { unit: 'characters', max: charactersMax } as const;
    this.speechModel = { limit, isStrict: true, voices: null };
    this.storage = new FileObjects(join(folder, 'objects'), this.links);
    this.desk = new JobService({
      jobs: store.jobs.book,
      objects: store.jobs.objects,
      storage: this.storage,
      speechModel: async () => ({ ...this.speechModel, ...solvent }),
      transcriptionModel: async (_caller, alias) => {
        if (alias === 'played/hear') return solvent;
        throw new GatewayError('invalid_request_error', 'No such model.', { status: 404 });
      },
      refusalOfAddress: async (url) => (url.includes('127.0.0.1') ? 'Not there.' : null),
      onCanceled: (id) => this.onCancelled(id),
      now: () => this.now,
    });
  }

  async close(): Promise<void> {
    await this.store.database.close();
    rmSync(this.#folder, { recursive: true });
  }

  /** Another worker, as another process would have it. */
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

  /** Claims every job that may be taken now and works until all are done. */
  async workOff(worker = this.worker()): Promise<void> {
    await worker.claim();
    await worker.idle();
  }

  sweep(): Promise<void> {
    const { objects } = this.store.jobs;
    const parts = {
      objects,
      storage: this.storage,
      now: () => this.now,
      onDeleteFailures: unexpected,
    };
    return new JobSweep(parts).run();
  }

  async newCaller(): Promise<Caller> {
    return callerOf(await addTenant(this.store), { keyId: 'key_of_the_caller' });
  }

  async speech(caller: Caller, input: string, more: object = {}): Promise<string> {
    const body = { model: 'played/speak', input, voice: 'v', response_format: 'wav', ...more };
    return (await this.desk.createSpeech(caller, body, 'http://g.test', null)).id;
  }

  async transcription(
    caller: Caller,
    audio: Uint8Array,
    fields: Readonly<Record<string, string>> = {},
  ): Promise<string> {
    const parts = formOf(audio, { model: 'played/hear', ...fields });
    const form = await this.desk.receive(caller.tenantId, parts);
    return (await this.desk.createTranscription(caller, form, 'http://g.test', null)).id;
  }

  async job({ tenantId }: Caller, id: string): Promise<Job> {
    const job = await this.store.jobs.book.find(tenantId, id);
    if (!job) throw new Error(`There is no job ${id}.`);
    return job;
  }

  async output(caller: Caller, id: string): Promise<Buffer> {
    const { output, status, failure } = await this.job(caller, id);
    const object = output && (await this.storage.open(output.key));
    if (!object) throw new Error(`The job is ${status}: ${failure?.message}`);
    return Buffer.from(await object.body.arrayBuffer());
  }

  /** Names of all stored objects. */
  stored(): string[] {
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
      for (let at = 0; at < audio.length; at += 65_536) yield audio.slice(at, at + 65_536);
    })();
    yield { kind: 'file', name: 'file', filename, chunks };
  }
  for (const [name, value] of Object.entries(fields)) yield { kind: 'field', name, value };
}

function unexpected({ reason }: { readonly reason: unknown }): never {
  throw reason;
}
