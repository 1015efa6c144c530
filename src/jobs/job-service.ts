import type {
  JobListObject,
  JobObject,
  NewJobObject,
  SpeechInput,
  TranscriptionInput,
} from '../contract/jobs.ts';
import { jobInputBytesMax, jobsWaitingMax } from '../core/bounds.ts';
import { type Caller, mayUseModel } from '../core/caller.ts';
import { GatewayError, invalidRequest, notFound } from '../core/errors.ts';
import { addField, duplicateField, type FormPart, mustBeFile, mustBeText } from '../core/form.ts';
import { randomText } from '../core/ids.ts';
import { type SpeechFormat, speechStyleError, type TextLimit } from '../core/media/audio.ts';
import type { FairShareBudget, MemoryReservation } from '../limits/memory-budget.ts';
import type { Job, JobRequest } from './job.ts';
import { jobObject, newJobObject } from './job.ts';
import { readSpeechInput, readTranscriptionInput } from './job-input.ts';
import type { ObjectStorage } from './object-storage.ts';
import { canJoin } from './pieces/join-speech.ts';
import { splitText } from './pieces/split-text.ts';
import {
  type EnqueueRejection,
  type JobIdempotencyClaim,
  type JobObjects,
  type JobPage,
  type JobStore,
  type NewJob,
  tenantsAtLimit,
} from './queue.ts';
import {
  discardUpload,
  type StoredAudio,
  type StoredInput,
  storeAudio,
  storeText,
} from './upload.ts';

interface JobServiceDeps {
  readonly jobs: JobStore;
  readonly objects: JobObjects;
  readonly storage: ObjectStorage;
  /** Returns the model if this caller may use it. Throws 400, 403, 404. */
  speechModel(caller: Caller, name: string): Promise<SpeechModel & JobModel>;
  /** Resolves if this caller may use the transcription model. Throws 400, 403, 404. */
  transcriptionModel(caller: Caller, name: string): Promise<JobModel>;
  /** Returns why the address policy rejects a URL, or null if the URL is allowed. */
  urlRejection(url: string, tenantId: string): Promise<string | null>;
  /** Called after a job was canceled. */
  onCanceled(jobId: string): void;
  now(): number;
  /** Disk space for unfinished forms, shared by all tenants. */
  readonly uploadBudget: Pick<FairShareBudget, 'openReservation'>;
}

interface JobModel {
  /** The model's alias, even if the client sent its name without the brand. */
  readonly alias: string;
  /**
   * Resolves if the caller has enough credits for these texts. Throws 402. Runs after all other
   * checks, so that invalid fields are reported before missing credits.
   */
  checkCredits(texts: readonly string[]): Promise<void>;
}

export interface SpeechModel {
  readonly limit: TextLimit;
  /** True if the model rejects unknown voices and speeds; otherwise they are mapped or ignored. */
  readonly isStrict: boolean;
  /** The voices of a strict model; null if the configuration lists none. */
  readonly voices: readonly string[] | null;
}

/** A form received in full. Its file is stored but doesn't belong to a job yet. */
interface ReceivedForm {
  /** The ID for the job that is created from the form. */
  readonly id: string;
  readonly fields: ReadonlyMap<string, readonly string[]>;
  readonly upload: StoredAudio | undefined;
}

/**
 * How many forms a tenant may upload at the same time. The fields and the credits can be checked
 * only at the end of a form. Until then, its file takes disk space without being paid for.
 */
const formsPerTenantMax = 32;

/** Creates, shows, lists, and cancels jobs for clients. */
export class JobService {
  readonly #deps: JobServiceDeps;
  /** Job ID → tenant ID of each form that is being received. */
  readonly #receiving = new Map<string, string>();

  constructor(deps: JobServiceDeps) {
    this.#deps = deps;
  }

  async createSpeech(
    caller: Caller,
    body: unknown,
    baseUrl: string,
    claim: JobIdempotencyClaim | null,
  ) {
    const input = readSpeechInput(body);
    const model = await this.#deps.speechModel(caller, input.model);
    const request = { ...speechRequest(input, model), ...aliasIn(caller, input, model) };
    await this.#checkWebhook(caller, input);
    await model.checkCredits(splitText(input.input, model.limit));
    const id = newJobId();
    const upload = await storeText(input.input, id, this.#deps.now(), this.#deps);
    try {
      return await this.#enqueue(
        { id, caller, input, model: model.alias, request, upload, claim },
        baseUrl,
      );
    } catch (error) {
      await discardUpload(upload.key, this.#deps);
      throw error;
    }
  }

  /** Reads a form. Streams its file into storage. The fields may precede or follow the file. */
  async receive(tenantId: string, form: AsyncIterable<FormPart>): Promise<ReceivedForm> {
    if (tenantsAtLimit([...this.#receiving.values()], formsPerTenantMax).includes(tenantId)) {
      const message =
        `This account is already uploading ${formsPerTenantMax} files, which is the limit. ` +
        'Retry when an upload has finished.';
      throw new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds: 5 });
    }
    const id = newJobId();
    this.#receiving.set(id, tenantId);
    const reservation = this.#deps.uploadBudget.openReservation(tenantId);
    const fields = new Map<string, string[]>();
    let upload: StoredAudio | undefined;
    try {
      for await (const part of form) {
        if (part.kind === 'field') {
          addField(fields, part);
          continue;
        }
        if (part.name !== 'file') throw mustBeText(part.name);
        if (upload) throw duplicateField('file');
        const file = { ...part, chunks: reserved(part.chunks, reservation) };
        upload = await storeAudio(file, id, this.#deps.now(), this.#deps);
      }
      return { id, fields, upload };
    } catch (error) {
      await this.discardForm({ upload });
      throw error;
    } finally {
      this.#receiving.delete(id);
      reservation.release();
    }
  }

  async createTranscription(
    caller: Caller,
    { id, fields, upload }: ReceivedForm,
    baseUrl: string,
    claim: JobIdempotencyClaim | null,
  ) {
    if (fields.has('file')) throw mustBeFile('file');
    const input = readTranscriptionInput(fields);
    if (!upload) throw invalidRequest('file is required. Send an audio recording.', 'file');
    const model = await this.#deps.transcriptionModel(caller, input.model);
    await this.#checkWebhook(caller, input);
    await model.checkCredits([]);
    const request = { ...transcriptionRequest(input), ...aliasIn(caller, input, model) };
    const draft = { id, caller, input, model: model.alias, request, upload, claim };
    return this.#enqueue(draft, baseUrl);
  }

  /** Deletes the file of a form that no job was created from. */
  async discardForm({ upload }: Pick<ReceivedForm, 'upload'>): Promise<void> {
    if (upload) await discardUpload(upload.key, this.#deps);
  }

  async show(tenantId: string, id: string, baseUrl: string): Promise<JobObject> {
    const job = await requireJob(id, () => this.#deps.jobs.find(tenantId, id));
    return this.#view(job, baseUrl);
  }

  /** Reads one more job than the page holds, to set `has_more`. */
  async list(tenantId: string, page: JobPage, baseUrl: string): Promise<JobListObject> {
    const { jobs, now } = this.#deps;
    const found = await jobs.list(tenantId, { ...page, limit: page.limit + 1 }, now());
    return {
      object: 'list',
      data: found.slice(0, page.limit).map((job) => this.#view(job, baseUrl)),
      has_more: found.length > page.limit,
    };
  }

  async cancel(tenantId: string, id: string, baseUrl: string): Promise<JobObject> {
    const { jobs, now, onCanceled } = this.#deps;
    const job = await requireJob(id, () => jobs.cancel(tenantId, id, now()));
    if (job.status === 'cancelled') {
      onCanceled(id);
      return this.#view(job, baseUrl);
    }
    const message = `This job has already ended with status ${job.status}.`;
    throw invalidRequest(message, 'id', 409);
  }

  #view(job: Job, baseUrl: string) {
    const { storage, now } = this.#deps;
    return jobObject(job, { now: now(), baseUrl, storage });
  }

  async #checkWebhook(
    { tenantId }: Caller,
    { webhook_url: url }: SpeechInput | TranscriptionInput,
  ): Promise<void> {
    const rejection = url ? await this.#deps.urlRejection(url, tenantId) : null;
    if (rejection === null) return;
    throw invalidRequest(`webhook_url isn't allowed: ${rejection}`, 'webhook_url');
  }

  async #enqueue(draft: JobDraft, baseUrl: string): Promise<NewJobObject> {
    const { jobs, now } = this.#deps;
    const job = newJob(draft, now());
    const bounds = { waitingMax: jobsWaitingMax, inputBytesMax: jobInputBytesMax };
    const result = await jobs.enqueue(job, bounds, draft.claim);
    if (result.ok) return newJobObject({ ...job, status: 'queued' }, baseUrl);
    throw enqueueError(result.reason);
  }
}

async function* reserved(
  chunks: AsyncIterable<Uint8Array>,
  reservation: MemoryReservation,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    reservation.reserve(chunk.length);
    yield chunk;
  }
}

interface JobDraft {
  readonly id: string;
  readonly caller: Caller;
  readonly input: SpeechInput | TranscriptionInput;
  readonly model: string;
  readonly request: JobRequest;
  readonly upload: StoredInput;
  readonly claim: JobIdempotencyClaim | null;
}

function newJob({ id, caller, input, model, request, upload }: JobDraft, now: number): NewJob {
  return {
    id,
    tenantId: caller.tenantId,
    keyId: caller.keyId,
    model,
    request,
    inputKey: upload.key,
    inputBytes: upload.bytes,
    metadata: input.metadata ?? {},
    webhookUrl: input.webhook_url ?? null,
    createdAt: now,
  };
}

function enqueueError(reason: EnqueueRejection): GatewayError {
  if (reason === 'claim_taken_over') {
    const conflict =
      'Another process is now handling a request with this Idempotency-Key. Retry to get its job.';
    return invalidRequest(conflict, 'Idempotency-Key', 409);
  }
  const limit =
    reason === 'too_many_jobs'
      ? `${jobsWaitingMax} jobs`
      : `${jobInputBytesMax / 2 ** 30} GiB of input`;
  const message = `This account can have at most ${limit} queued. Retry after a job finishes.`;
  return new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds: 60 });
}

/** Returns the requested name if the caller may use the model only under that name. */
function aliasIn(
  caller: Caller,
  { model: requested }: SpeechInput | TranscriptionInput,
  { alias: model }: JobModel,
): { readonly alias?: string } {
  return mayUseModel(caller, model) ? {} : { alias: requested };
}

function speechRequest(input: SpeechInput, model: SpeechModel): JobRequest {
  const { limit, voices, isStrict } = model;
  const { voice, speed = null, instructions = null } = input;
  const rejection = isStrict ? speechStyleError({ voice, speed }, voices, input.model) : null;
  if (rejection) throw rejection;
  const format: SpeechFormat = input.response_format ?? 'mp3';
  if (!canJoin(format) && splitText(input.input, limit).length > 1) {
    const longest = `${limit.max} ${limit.unit}`;
    const message =
      `response_format ${format} works only for texts of up to ${longest}: longer texts are ` +
      `split into pieces, and ${format} pieces can't be joined. Use wav, which is also lossless.`;
    throw invalidRequest(message, 'response_format');
  }
  return { type: 'speech', voice, format, speed, instructions, limit };
}

function transcriptionRequest(input: TranscriptionInput): JobRequest {
  return {
    type: 'transcription',
    format: input.response_format ?? 'json',
    language: input.language ?? null,
    prompt: input.prompt ?? null,
    temperature: input.temperature ?? null,
    granularities: input.timestamp_granularities ?? [],
  };
}

function newJobId(): string {
  return `job_${randomText(24)}`;
}

/** Doesn't look up malformed IDs, because the database may reject their bytes. Throws 404. */
async function requireJob(id: string, find: () => Promise<Job | undefined>): Promise<Job> {
  const job = /^job_[0-9a-z]{24}$/.test(id) ? await find() : undefined;
  if (!job) throw notFound('There is no job with this ID.', 'id');
  return job;
}
