import { strict as assert } from 'node:assert';
import type { Books } from '../books.ts';
import { fingerprint } from '../cache/fingerprint.ts';
import type { Idempotency } from '../cache/idempotency.ts';
import type { Config } from '../config/config.ts';
import type { Feature } from '../config/model-schema.ts';
import { noPreferences } from '../core/ask.ts';
import { idempotencyTtlMs } from '../core/bounds.ts';
import { type Caller, mayUseModel } from '../core/caller.ts';
import { countCharacters } from '../core/characters.ts';
import type { Chore } from '../core/chore.ts';
import { hostInUrl } from '../core/host-in-url.ts';
import type { SecretKeys } from '../core/secret.ts';
import { noUsage } from '../core/usage.ts';
import type { Steps } from '../gateway.ts';
import type { JobMade, OnceUse } from '../http/jobs/jobs.ts';
import { JobDesk, type SpeechModel } from '../jobs/desk.ts';
import { ObjectLinks } from '../jobs/object-links.ts';
import type { ObjectStorage } from '../jobs/objects.ts';
import type { JobBook, JobClaim } from '../jobs/queue.ts';
import { JobSweep } from '../jobs/sweep.ts';
import { WebhookSigner } from '../jobs/webhook-signature.ts';
import { WebhookSender } from '../jobs/webhooks.ts';
import { JobWorker } from '../jobs/worker.ts';
import type { Admission } from '../limits/admit.ts';
import { chargeAt, costOf } from '../meter/price.ts';
import type { CatalogueOf, Offer } from '../route/catalogue.ts';
import type { Health } from '../route/health.ts';
import { forbiddenModel, plan } from '../route/plan.ts';
import { textLimitOf } from '../route/speech-limit.ts';
import { recordingOfJob } from '../store/jobs/book.ts';
import { openObjects } from '../store/objects/open.ts';
import type { Store } from '../store/open.ts';
import { type Log, reason } from '../telemetry/log.ts';
import type { AddressPolicy } from '../upstream/guard/address-guard.ts';
import { createGuardedFetch } from '../upstream/guard/guarded-fetch.ts';
import { refusalBy } from '../upstream/guard/user-address.ts';
import { StoryRunner } from './job-runner.ts';

interface JobsParts {
  readonly config: Config;
  readonly store: Store;
  readonly books: Books;
  readonly health: Health;
  readonly idempotency: Idempotency;
  readonly secrets: SecretKeys;
  readonly log: Log;
  readonly door: Door;
  /** The clock by which processes agree whose turn a job is, and until when its links are good. */
  now(): number;
}

/** Where this process is reached. */
export interface Door {
  /** The configured port, and the port in use once we listen. */
  port: number;
}

/** The parts that depend on settings, which a reload may change. */
interface JobSurroundings {
  readonly config: Config;
  readonly catalogueOf: CatalogueOf;
  readonly admission: Admission;
  readonly steps: Steps;
  readonly addressPolicy: AddressPolicy;
}

/** Everything about jobs: the desk for clients, the worker, the webhooks, the sweep. */
export class Jobs {
  readonly #parts: JobsParts;
  readonly #storage: ObjectStorage;
  readonly #links: ObjectLinks;
  readonly #signer: WebhookSigner;
  readonly #runner: StoryRunner;
  readonly #worker: JobWorker;
  readonly #webhooks: WebhookSender;
  readonly #sweep: JobSweep;
  #around: JobSurroundings | undefined;

  constructor(parts: JobsParts) {
    const { config, store, books, secrets, log } = parts;
    this.#parts = parts;
    this.#links = new ObjectLinks(...secrets);
    this.#signer = new WebhookSigner(...secrets);
    this.#storage = openObjects(config.objects.reveal(), config.objectStorage, this.#links);
    const shared = { objects: store.jobs.objects, storage: this.#storage, now: parts.now };
    const steps = () => this.#surroundings().steps;
    this.#runner = new StoryRunner({ store, books, steps, now: parts.now });
    this.#worker = new JobWorker({
      ...shared,
      queue: store.jobs.queue,
      runner: this.#runner,
      onFailure: (job, thrown) => log.error('job_failed', { job, reason: reason(thrown) }),
    });
    this.#webhooks = new WebhookSender({
      ...shared,
      queue: store.jobs.webhooks,
      book: store.jobs.book,
      signer: this.#signer,
      post: (url, call) => createGuardedFetch(this.#surroundings().addressPolicy)(url, call),
      baseUrl: () => this.#baseUrl(),
      onGivenUp: ({ jobId }) => log.warn('webhook_given_up', { job: jobId }),
    });
    this.#sweep = new JobSweep({
      ...shared,
      onLeft: ({ objects, why }) =>
        log.warn('objects_not_deleted', { objects, reason: reason(why) }),
    });
  }

  /** At the start, and with every reload. */
  configure(around: JobSurroundings): void {
    this.#around = around;
  }

  chores(): Chore[] {
    return [this.#worker, this.#webhooks, this.#sweep].flatMap((part) => part.chores());
  }

  async stop(seconds: number): Promise<void> {
    await Promise.all([this.#worker.stop(seconds * 1000), this.#webhooks.stop()]);
  }

  /** For a stop that can wait no longer. */
  breakOff(): void {
    this.#worker.breakOff();
  }

  /** What the routes of jobs need. */
  routeParts({ config, catalogueOf, admission, addressPolicy }: JobSurroundings) {
    const { store, books, health, idempotency, now } = this.#parts;
    const models = { catalogueOf, health };
    const till = { books, creditsPerUsd: config.creditsPerUsd };
    const desk = new JobDesk({
      book: store.jobs.book,
      objects: store.jobs.objects,
      storage: this.#storage,
      speechModel: async (caller, alias) => {
        const offer = await offerFor(caller, alias, 'speech', models);
        return { ...speechModelOf(offer), ...chargingAt(offer, caller, till) };
      },
      transcriptionModel: async (caller, alias) =>
        chargingAt(await offerFor(caller, alias, 'transcription', models), caller, till),
      refusalOfAddress: refusalBy(addressPolicy),
      cancelled: (id) => this.#worker.cancelled(id),
      now,
    });
    return {
      desk,
      publicUrl: config.server.publicUrl,
      admission,
      webhookSecretOf: (tenantId: string) => this.#signer.secretOf(tenantId),
      once: (use: OnceUse, make: MakeClaimed) =>
        once(use, make, { idempotency, book: store.jobs.book, now }),
    };
  }

  /** What the route to objects needs. */
  get objectParts() {
    return {
      open: (key: string) => this.#storage.open(key),
      isValidLink: (key: string, query: string) =>
        this.#links.isValid(key, query, this.#parts.now()),
    };
  }

  #surroundings(): JobSurroundings {
    if (!this.#around) throw new Error('Jobs were started before they were configured.');
    return this.#around;
  }

  #baseUrl(): string {
    const { publicUrl, host } = this.#surroundings().config.server;
    return publicUrl ?? `http://${hostInUrl(host)}:${this.#parts.door.port}`;
  }
}

type MakeClaimed = (claim: JobClaim) => Promise<JobMade>;

interface OnceParts {
  readonly idempotency: Idempotency;
  readonly book: JobBook;
  now(): number;
}

/** The claim remembers the job's id; the job itself is read afresh. */
async function once(
  { caller, key, body, requestId, client }: OnceUse,
  make: MakeClaimed,
  { idempotency, book, now }: OnceParts,
): Promise<JobMade | string> {
  const { tenantId } = caller;
  const claim = { tenantId, key, requestId, fingerprint: fingerprint(['job', body]) };
  const recalled = await idempotency.recall(claim, client, ({ text }) => text);
  if ('found' in recalled) {
    const model = (await book.find(tenantId, recalled.found))?.model;
    // Another key of the tenant made the job; this key may not be allowed to use its model.
    if (model !== undefined && !mayUseModel(caller, model)) throw forbiddenModel(model);
    return recalled.found;
  }
  const { duty } = recalled;
  try {
    const made = await make({ ...claim, keptUntil: now() + idempotencyTtlMs });
    await duty.finish(recordingOfJob(made.id));
    return made;
  } catch (thrown) {
    await duty.release();
    throw thrown;
  }
}

interface OfferParts extends Pick<JobSurroundings, 'catalogueOf'> {
  readonly health: Health;
}

/** Refuses a model in the same words as a call of it would be refused. 400 403 404 */
async function offerFor(
  caller: Caller,
  alias: string,
  feature: Feature,
  { catalogueOf, health }: OfferParts,
): Promise<Offer> {
  const catalogue = await catalogueOf(caller.tenantId);
  const ask = { models: [alias], preferences: noPreferences, parameters: [] };
  const misfit = ({ model }: Offer) =>
    model.features.includes(feature) ? null : `is not a ${feature} model`;
  const around = { catalogue, health, errand: { misfit }, supports: () => true };
  const [offer] = plan(ask, caller, around);
  assert(offer, 'A plan without an offer was not refused.');
  return offer;
}

interface Till {
  readonly books: Books;
  readonly creditsPerUsd: number;
}

function chargingAt(offer: Offer, caller: Caller, till: Till) {
  return {
    checkCredits: (texts: readonly string[]) => checkCredits(caller, offer, texts, till),
  };
}

/**
 * A job sets credits aside piece by piece. A tenant that has too few for all pieces is told at
 * once, and does not pay for the beginning of a job that cannot be finished.
 */
async function checkCredits(
  caller: Caller,
  offer: Offer,
  texts: readonly string[],
  { books, creditsPerUsd }: Till,
): Promise<void> {
  if (isFree(offer)) return;
  let charge = 0;
  for (const text of texts) {
    const units = { characters: countCharacters(text), bytes: Buffer.byteLength(text) };
    charge += chargeAt(offer, costOf(noUsage, offer.prices, units), creditsPerUsd);
  }
  // What minutes and tokens cost is known only in the end, but it will not be nothing.
  const needed = Math.max(1, charge);
  const asked = { caller, receivedAt: Date.now() };
  const hold = await books.hold(asked, { wanted: needed, least: needed });
  await hold.settle(0);
}

function isFree({ pricing, own }: Offer): boolean {
  return own?.feeBasisPoints === 0 || Object.values(pricing).every((price) => Number(price) === 0);
}

function speechModelOf({ model, speech }: Offer): SpeechModel {
  const { style, voices } = model.speech ?? {};
  return {
    limit: textLimitOf(speech),
    isStrict: style === 'first_party',
    voices: voices ? Object.keys(voices) : null,
  };
}
