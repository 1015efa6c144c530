import { jobInputBytesMax, jobsWaitingMax } from '../core/bounds.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError, invalidRequest, notFound } from '../core/errors.ts';
import { addField, duplicateField, type FormPart, mustBeFile, mustBeText } from '../core/form.ts';
import { randomText } from '../core/ids.ts';
import { type SpeechFormat, speechStyleRefusal, type TextLimit } from '../core/media/audio.ts';
import type { Job, JobRequest } from './job.ts';
import { jobObject, newJobObject } from './job.ts';
import {
  readSpeechInput,
  readTranscriptionInput,
  type SpeechInput,
  type TranscriptionInput,
} from './job-input.ts';
import type { ObjectStorage } from './objects.ts';
import { canJoin } from './pieces/join-speech.ts';
import { splitText } from './pieces/split-text.ts';
import type { JobIdempotencyClaim, JobObjects, JobPage, JobStore, NewJob } from './queue.ts';
import { tenantsAtLimit } from './queue.ts';
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
  /** The model, when this caller may use it. 400 403 404 */
  speechModel(caller: Caller, alias: string): Promise<SpeechModel & CreditCheck>;
  /** The same for transcriptions. 400 403 404 */
  transcriptionModel(caller: Caller, alias: string): Promise<CreditCheck>;
  /** Why a user's address is refused; null when it is not. */
  refusalOfAddress(url: string): Promise<string | null>;
  /** Told when a job was cancelled. */
  onCanceled(jobId: string): void;
  now(): number;
}

/** Asked last: whoever sends a wrong field hears of that first, with credits or without. */
interface CreditCheck {
  /** Resolves when the caller has the credits for these texts. 402 */
  checkCredits(texts: readonly string[]): Promise<void>;
}

export interface SpeechModel {
  readonly limit: TextLimit;
  /** The model checks voice and speed; others map the voice and ignore the speed. */
  readonly isStrict: boolean;
  /** The voices of a strict model; null where the configuration lists none. */
  readonly voices: readonly string[] | null;
}

/** A form that has arrived. Its file is stored, and belongs to no job yet. */
interface ReceivedForm {
  /** The id of the job that the form may become. */
  readonly id: string;
  readonly fields: ReadonlyMap<string, readonly string[]>;
  readonly upload: StoredAudio | undefined;
}

/**
 * Forms of one tenant that arrive at once. Whether a form is valid, and whether there are credits
 * for it, is known at its end only: until then its file may be on the disk for nothing.
 */
const formsPerTenantMax = 32;

/** What clients do with jobs: create, look at, list, cancel. */
export class JobService {
  readonly #deps: JobServiceDeps;
  /** The tenants of all forms that are arriving. */
  readonly #arriving = new Map<string, string>();

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
    const request = speechRequest(input, model);
    await this.#checkWebhook(input);
    await model.checkCredits(splitText(input.input, model.limit));
    const id = newJobId();
    const upload = await storeText(input.input, id, this.#deps.now(), this.#deps);
    try {
      return await this.#enqueue({ id, caller, input, request, upload, claim }, baseUrl);
    } catch (error) {
      await discardUpload(upload.key, this.#deps);
      throw error;
    }
  }

  /** Takes the file as it arrives; the fields may come before or behind it. */
  async receive(tenantId: string, form: AsyncIterable<FormPart>): Promise<ReceivedForm> {
    if (tenantsAtLimit([...this.#arriving.values()], formsPerTenantMax).includes(tenantId)) {
      const message = `This account already sends ${formsPerTenantMax} files, which is the limit.`;
      throw new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds: 5 });
    }
    const id = newJobId();
    this.#arriving.set(id, tenantId);
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
        upload = await storeAudio(part, id, this.#deps.now(), this.#deps);
      }
      return { id, fields, upload };
    } catch (error) {
      await this.discardForm({ upload });
      throw error;
    } finally {
      this.#arriving.delete(id);
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
    if (!upload) throw invalidRequest('file is required: a recording.', 'file');
    const model = await this.#deps.transcriptionModel(caller, input.model);
    await this.#checkWebhook(input);
    await model.checkCredits([]);
    const request = transcriptionRequest(input);
    return this.#enqueue({ id, caller, input, request, upload, claim }, baseUrl);
  }

  /** Removes the file of a form that became no job. */
  async discardForm({ upload }: Pick<ReceivedForm, 'upload'>): Promise<void> {
    if (upload) await discardUpload(upload.key, this.#deps);
  }

  async show(tenantId: string, id: string, baseUrl: string) {
    const job = await requireJob(id, () => this.#deps.jobs.find(tenantId, id));
    return this.#view(job, baseUrl);
  }

  /** One more is read than shown, to know whether there are more. */
  async list(tenantId: string, page: JobPage, baseUrl: string) {
    const { jobs, now } = this.#deps;
    const found = await jobs.list(tenantId, { ...page, limit: page.limit + 1 }, now());
    return {
      object: 'list',
      data: found.slice(0, page.limit).map((job) => this.#view(job, baseUrl)),
      has_more: found.length > page.limit,
    };
  }

  async cancel(tenantId: string, id: string, baseUrl: string) {
    const { jobs, now, onCanceled } = this.#deps;
    const job = await requireJob(id, () => jobs.cancel(tenantId, id, now()));
    if (job.status === 'cancelled') {
      onCanceled(id);
      return this.#view(job, baseUrl);
    }
    const message = `This job has ended already: it is ${job.status}.`;
    throw invalidRequest(message, 'id', 409);
  }

  #view(job: Job, baseUrl: string) {
    const { storage, now } = this.#deps;
    return jobObject(job, { now: now(), baseUrl, storage });
  }

  async #checkWebhook({ webhook_url: url }: SpeechInput | TranscriptionInput): Promise<void> {
    const refusal = url ? await this.#deps.refusalOfAddress(url) : null;
    if (refusal === null) return;
    throw invalidRequest(`webhook_url was refused: ${refusal}`, 'webhook_url');
  }

  async #enqueue(draft: JobDraft, baseUrl: string) {
    const { jobs, now } = this.#deps;
    const job = newJob(draft, now());
    const bounds = { waitingMax: jobsWaitingMax, inputBytesMax: jobInputBytesMax };
    const outcome = await jobs.enqueue(job, bounds, draft.claim);
    if (outcome === 'queued') return newJobObject({ ...job, status: 'queued' }, baseUrl);
    if (outcome === 'taken_over') {
      const conflict = 'This Idempotency-Key is being answered by another process now.';
      throw invalidRequest(conflict, 'Idempotency-Key', 409);
    }
    const limit = outcome === 'too_many' ? `${jobsWaitingMax} jobs` : `${jobInputBytesMax} bytes`;
    const message = `No more than ${limit} may wait at once; send this job when some have ended.`;
    throw new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds: 60 });
  }
}

interface JobDraft {
  readonly id: string;
  readonly caller: Caller;
  readonly input: SpeechInput | TranscriptionInput;
  readonly request: JobRequest;
  readonly upload: StoredInput;
  readonly claim: JobIdempotencyClaim | null;
}

function newJob({ id, caller, input, request, upload }: JobDraft, now: number): NewJob {
  return {
    id,
    tenantId: caller.tenantId,
    keyId: caller.keyId,
    model: input.model,
    request,
    inputKey: upload.key,
    inputBytes: upload.bytes,
    metadata: input.metadata ?? {},
    webhookUrl: input.webhook_url ?? null,
    createdAt: now,
  };
}

function speechRequest(input: SpeechInput, model: SpeechModel): JobRequest {
  const { limit, voices, isStrict } = model;
  const { voice, speed = null, instructions = null } = input;
  const refusal = isStrict ? speechStyleRefusal({ voice, speed }, voices, input.model) : null;
  if (refusal) throw refusal;
  const format: SpeechFormat = input.response_format ?? 'mp3';
  if (!canJoin(format) && splitText(input.input, limit).length > 1) {
    const longest = `${limit.max} ${limit.unit}`;
    const message =
      `A text of more than ${longest} is spoken in pieces, and pieces of ${format} cannot be ` +
      'joined; use wav, which is lossless too.';
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

/** An id that no job can have is not looked up: a store may refuse its bytes. */
async function requireJob(id: string, find: () => Promise<Job | undefined>): Promise<Job> {
  const job = /^job_[0-9a-z]{24}$/.test(id) ? await find() : undefined;
  if (!job) throw notFound('There is no job with this id.', 'id');
  return job;
}
