import { strict as assert } from 'node:assert';
import { fingerprint } from '../cache/fingerprint.ts';
import type { Idempotency } from '../cache/idempotency.ts';
import type { Config } from '../config/config.ts';
import type { Feature } from '../config/model-schema.ts';
import { idempotencyTtlMs } from '../core/bounds.ts';
import { type Caller, mayUseModel } from '../core/caller.ts';
import { hostInUrl } from '../core/network-address.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { noPreferences } from '../core/request-info.ts';
import type { SecretKeys } from '../core/secret.ts';
import { countCharacters } from '../core/text.ts';
import { noUsage } from '../core/usage.ts';
import type { Stages } from '../gateway.ts';
import type { Admission } from '../limits/admission.ts';
import type { FairShareBudget } from '../limits/memory-budget.ts';
import type { Accounting } from '../money/accounting.ts';
import { chargeAt, costOf } from '../money/price/cost.ts';
import { textLimitOf } from '../route/capability.ts';
import type { CatalogOf, Offer } from '../route/catalog.ts';
import type { Health } from '../route/health.ts';
import { forbiddenModel, plan } from '../route/plan.ts';
import { anyRequestOf } from '../route/requested-models.ts';
import { recordingOfJob } from '../store/jobs/jobs.ts';
import { openObjects } from '../store/objects/open.ts';
import type { Store } from '../store/open.ts';
import { type Log, reason } from '../telemetry/log.ts';
import type { AddressPolicy } from '../upstream/guard/address-policy.ts';
import { createGuardedFetch } from '../upstream/guard/guarded-fetch.ts';
import { rejectionReasonBy } from '../upstream/guard/pinned-call.ts';
import { GatewayJobRunner } from './gateway-runner.ts';
import { JobService, type SpeechModel } from './job-service.ts';
import type { ObjectStorage } from './object-storage.ts';
import { ObjectLinks } from './object-storage.ts';
import type { JobIdempotencyClaim, JobStore } from './queue.ts';
import { JobSweep } from './sweep.ts';
import { WebhookSigner } from './webhook-signer.ts';
import { WebhookSender } from './webhooks.ts';
import { JobWorker } from './worker.ts';

interface JobsDeps {
  readonly config: Config;
  readonly store: Store;
  readonly accounting: Accounting;
  readonly health: Health;
  readonly idempotency: Idempotency;
  readonly secrets: SecretKeys;
  readonly log: Log;
  readonly listenPort: ListenPort;
  readonly uploads: { readonly budget: FairShareBudget };
  /** The database's clock, because leases and links expire at the same time for all processes. */
  now(): number;
}

export interface ListenPort {
  /** The configured port, replaced by the actual one once the server listens. */
  port: number;
}

/** The dependencies that a configuration reload replaces. */
interface JobContext {
  readonly config: Config;
  readonly catalogOf: CatalogOf;
  readonly admission: Admission;
  readonly stages: Stages;
  readonly addressPolicy: AddressPolicy;
}

/** Builds and runs the parts of the jobs module: service, worker, webhooks, and sweep. */
export class Jobs {
  readonly #deps: JobsDeps;
  readonly #storage: ObjectStorage;
  readonly #links: ObjectLinks;
  readonly #signer: WebhookSigner;
  readonly #runner: GatewayJobRunner;
  readonly #worker: JobWorker;
  readonly #webhooks: WebhookSender;
  readonly #sweep: JobSweep;
  #context: JobContext | undefined;

  constructor(deps: JobsDeps) {
    const { config, store, accounting, secrets, log } = deps;
    this.#deps = deps;
    this.#links = new ObjectLinks(...secrets);
    this.#signer = new WebhookSigner(secrets, store.jobs.webhookRotations);
    this.#storage = openObjects(config.objects.reveal(), config.s3Credentials, this.#links);
    const shared = { objects: store.jobs.objects, storage: this.#storage, now: deps.now };
    const stages = () => this.#requireContext().stages;
    this.#runner = new GatewayJobRunner({ store, accounting, stages, now: deps.now });
    this.#worker = new JobWorker({
      ...shared,
      queue: store.jobs.queue,
      runner: this.#runner,
      onFailure: (job, error) => log.error('job_failed', { job, reason: reason(error) }),
    });
    this.#webhooks = new WebhookSender({
      ...shared,
      queue: store.jobs.webhooks,
      jobs: store.jobs.store,
      signer: this.#signer,
      post: (url, call) => createGuardedFetch(this.#requireContext().addressPolicy)(url, call),
      baseUrl: () => this.#baseUrl(),
      onDropped: ({ jobId }) => log.warn('webhook_dropped', { job: jobId }),
    });
    this.#sweep = new JobSweep({
      ...shared,
      onDeleteFailures: ({ objects, reason: why }) =>
        log.warn('objects_not_deleted', { objects, reason: reason(why) }),
    });
  }

  /** Applies the configuration. Called at startup and after each reload. */
  configure(context: JobContext): void {
    this.#context = context;
  }

  periodicTasks(): PeriodicTask[] {
    return [this.#worker, this.#webhooks, this.#sweep].flatMap((component) =>
      component.periodicTasks(),
    );
  }

  async stop(seconds: number): Promise<void> {
    await Promise.all([this.#worker.stop(seconds * 1000), this.#webhooks.stop()]);
  }

  /** Aborts running pieces when the shutdown deadline has passed. */
  abort(): void {
    this.#worker.abortAll();
  }

  /** Returns the dependencies of the job routes. */
  routeDeps({ config, catalogOf, admission, addressPolicy }: JobContext) {
    const { store, accounting, health, idempotency, now } = this.#deps;
    const models = { catalogOf, health };
    const chargeContext = { accounting, creditsPerUsd: config.creditsPerUsd };
    const service = new JobService({
      jobs: store.jobs.store,
      objects: store.jobs.objects,
      storage: this.#storage,
      speechModel: async (caller, alias) => {
        const offer = await offerFor(caller, alias, 'speech', models);
        return {
          alias: offer.model.id,
          ...speechModelOf(offer),
          ...creditCheckFor(offer, caller, chargeContext),
        };
      },
      transcriptionModel: async (caller, alias) => {
        const offer = await offerFor(caller, alias, 'transcription', models);
        return { alias: offer.model.id, ...creditCheckFor(offer, caller, chargeContext) };
      },
      urlRejection: rejectionReasonBy(addressPolicy),
      onCanceled: (id) => this.#worker.abortCanceled(id),
      now,
      uploadBudget: this.#deps.uploads.budget,
    });
    return {
      service,
      publicUrl: config.server.publicUrl,
      admission,
      webhookSecrets: {
        show: (tenantId: string) => this.#signer.show(tenantId, now()),
        rotate: (tenantId: string, body: unknown) => this.#signer.rotate(tenantId, body, now()),
      },
      createOnce: (request: IdempotentJobRequest, create: CreateJob) =>
        createOnce(request, create, { idempotency, jobs: store.jobs.store, now }),
    };
  }

  /** Returns the dependencies of the object route. */
  get objectRouteDeps() {
    return {
      open: (key: string) => this.#storage.open(key),
      isAvailable: (key: string) => this.#deps.store.jobs.objects.isAvailable(key),
      isValidLink: (key: string, query: string) =>
        this.#links.isValid(key, query, this.#deps.now()),
    };
  }

  #requireContext(): JobContext {
    if (!this.#context) throw new Error('Jobs.configure() must be called before startup.');
    return this.#context;
  }

  #baseUrl(): string {
    const { publicUrl, host } = this.#requireContext().config.server;
    return publicUrl ?? `http://${hostInUrl(host)}:${this.#deps.listenPort.port}`;
  }
}

/** A request to create a job under an `Idempotency-Key`. */
export interface IdempotentJobRequest {
  readonly caller: Caller;
  readonly key: string;
  /** Compared with the body of an earlier request that used the same key. */
  readonly body: unknown;
  readonly requestId: string;
  readonly clientSignal: AbortSignal;
}

export interface CreatedJob {
  readonly id: string;
}

export type CreateOnceResult =
  | { readonly kind: 'created'; readonly job: CreatedJob }
  /** An earlier request with the same key created this job. */
  | { readonly kind: 'existing'; readonly id: string };

type CreateJob = (claim: JobIdempotencyClaim) => Promise<CreatedJob>;

interface OnceDeps {
  readonly idempotency: Idempotency;
  readonly jobs: JobStore;
  now(): number;
}

/** Creates the job. If an earlier request with the same key created one, returns that job's ID. */
async function createOnce(
  { caller, key, body, requestId, clientSignal }: IdempotentJobRequest,
  create: CreateJob,
  { idempotency, jobs, now }: OnceDeps,
): Promise<CreateOnceResult> {
  const { tenantId } = caller;
  const claim = { tenantId, key, requestId, fingerprint: fingerprint(['job', body]) };
  const result = await idempotency.lookUp(claim, clientSignal, ({ text }) => text);
  if ('found' in result) {
    const job = await jobs.find(tenantId, result.found);
    // Another key of the tenant may have created the job, and this key may not use its model.
    if (
      job &&
      ![job.model, job.request.alias ?? job.model].some((name) => mayUseModel(caller, name))
    )
      throw forbiddenModel(job.model);
    return { kind: 'existing', id: result.found };
  }
  const { inFlight } = result;
  try {
    const job = await create({ ...claim, answerExpiresAt: now() + idempotencyTtlMs });
    await inFlight.finish(recordingOfJob(job.id));
    return { kind: 'created', job };
  } catch (error) {
    await inFlight.release();
    throw error;
  }
}

interface OfferDeps extends Pick<JobContext, 'catalogOf'> {
  readonly health: Health;
}

/** Returns the model's first offer. Throws 400, 403, or 404, like a direct request. */
async function offerFor(
  caller: Caller,
  alias: string,
  feature: Feature,
  { catalogOf, health }: OfferDeps,
): Promise<Offer> {
  const catalog = await catalogOf(caller, Date.now());
  const anyRequest = anyRequestOf(caller);
  const models = catalog.resolveAll([alias], anyRequest);
  const granted = catalog.grantedBy([alias], anyRequest);
  const request = { models, granted, preferences: noPreferences, parameters: [] };
  const incompatibility = ({ model }: Offer) =>
    model.features.includes(feature) ? null : `is not a ${feature} model`;
  const context = { catalog, health, operation: { incompatibility }, supports: () => true };
  const [offer] = plan(request, caller, context);
  assert(offer, 'plan() returned no offer and did not throw.');
  return offer;
}

interface ChargeContext {
  readonly accounting: Accounting;
  readonly creditsPerUsd: number;
}

function creditCheckFor(offer: Offer, caller: Caller, chargeContext: ChargeContext) {
  return {
    checkCredits: (texts: readonly string[]) => checkCredits(caller, offer, texts, chargeContext),
  };
}

/**
 * Rejects a job that the tenant can't pay for in full. Credits are held per piece, so without this
 * check the tenant would pay for the first pieces of a job that can't finish. Throws 402.
 */
async function checkCredits(
  caller: Caller,
  offer: Offer,
  texts: readonly string[],
  { accounting, creditsPerUsd }: ChargeContext,
): Promise<void> {
  if (isFree(offer)) return;
  let charge = 0;
  for (const text of texts) {
    const units = { characters: countCharacters(text), bytes: Buffer.byteLength(text) };
    charge += chargeAt(offer, costOf(noUsage, offer.prices, units), creditsPerUsd);
  }
  // The cost of minutes and tokens is known only at the end, but it is at least 1 credit.
  const required = Math.max(1, charge);
  const billedCall = { caller, receivedAt: Date.now() };
  const hold = await accounting.hold(billedCall, { requested: required, minimum: required });
  await hold.settle(0);
}

function isFree({ pricing, ownAccount }: Offer): boolean {
  return (
    ownAccount?.feeBasisPoints === 0 || Object.values(pricing).every((price) => Number(price) === 0)
  );
}

function speechModelOf({ model, speech }: Offer): SpeechModel {
  const { style, voices } = model.speech ?? {};
  return {
    limit: textLimitOf(speech),
    isStrict: style === 'first_party',
    voices: voices ? Object.keys(voices) : null,
  };
}
