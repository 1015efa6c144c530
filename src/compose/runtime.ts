import { totalmem } from 'node:os';
import { join } from 'node:path';
import { Authenticator } from '../auth/authenticate.ts';
import { ChangeWatcher } from '../auth/directory.ts';
import { Vault } from '../auth/vault.ts';
import { MemoryCacheStore } from '../cache/cache-store.ts';
import { Idempotency } from '../cache/idempotency.ts';
import { ResponseCache } from '../cache/response-cache.ts';
import type { Config } from '../config/config.ts';
import { ConfigProblems } from '../config/problems.ts';
import { longTextsFraction, replyBytesMax } from '../core/bounds.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { randomText } from '../core/ids.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { shareObjectsHint } from '../core/stored-object.ts';
import { type DemoUpstream, startDemoUpstream } from '../demo/server.ts';
import { TenantReadQueue } from '../http/read-queue.ts';
import { Jobs, type ServerAddress } from '../jobs/jobs.ts';
import { ConcurrencyLimiter, type SharedLimits } from '../limits/admission.ts';
import { MemoryBudget } from '../limits/memory-budget.ts';
import { RateLimiter } from '../limits/rate.ts';
import { SharedSlots } from '../limits/shared-slots.ts';
import { Accounting, type AccountingDeps } from '../money/accounting.ts';
import { claimJournals, journalFailure } from '../money/settle/journal-files.ts';
import { UnknownModelNames } from '../records/unknown-model-names.ts';
import { Health } from '../route/health.ts';
import { StoreClock, withStoreClock } from '../store/clock.ts';
import { claimObjectsLocation } from '../store/objects/open.ts';
import type { Store } from '../store/open.ts';
import { RedisCacheStore } from '../store/redis/cache-store.ts';
import { countScripts, RedisCounts } from '../store/redis/counts.ts';
import { Redis } from '../store/redis/redis.ts';
import { LogRetention } from '../store/retention.ts';
import { secretKeysOf } from '../store/secret-key.ts';
import { ensureDeploymentName, fixCreditRate } from '../store/settings.ts';
import { UploadFolder } from '../store/uploads.ts';
import { type Log, reason } from '../telemetry/log.ts';
import { Telemetry } from '../telemetry/telemetry.ts';
import { builtInSkills } from '../tools/skills/built-in.ts';
import { SkillResolver } from '../tools/skills/skill-resolver.ts';
import { SkillService } from '../tools/skills/skill-service.ts';

/** Everything that remembers something: made once, and left alone by a reload. */
export interface SharedServices {
  readonly store: Store;
  readonly vault: Vault;
  readonly telemetry: Telemetry;
  readonly redis: Redis | undefined;
  readonly counters: Counters;
  readonly accounting: Accounting;
  readonly authenticator: Authenticator;
  readonly changes: ChangeWatcher;
  readonly skills: Skills;
  readonly health: Health;
  readonly unknownModelNames: UnknownModelNames;
  readonly cache: ResponseCache;
  readonly idempotency: Idempotency;
  readonly uploads: UploadFolder;
  /** Room for long bodies, which are in memory until their requests have ended. */
  readonly bodyMemoryBudget: MemoryBudget;
  /** Room for long answers that come whole, which are in memory likewise. */
  readonly answerMemoryBudget: MemoryBudget;
  /** A reload that made new ones would give each tenant turns beside those it has. */
  readonly readTurns: Record<'lists' | 'files' | 'jobs', TenantReadQueue>;
  readonly retention: LogRetention | undefined;
  readonly demo: DemoServer;
  readonly jobs: Jobs;
  readonly serverAddress: ServerAddress;
  /**
   * Watches the deadlines of calls to providers, and breaks them off when a shutdown cannot wait.
   * Counts of tokens have a watch of their own: they are short.
   */
  readonly deadlines: DeadlineWatcher;
  /** The clock by which processes agree when something has expired. */
  now(): number;
  periodicTasks(): PeriodicTask[];
}

/** One process among those that serve together on a machine. */
export interface WorkerSlot {
  /** The number of this process; null when it is the only one. */
  readonly worker: number | null;
  /** How many processes there are. */
  readonly workerCount: number;
}

export async function openServices(
  config: Config,
  store: Store,
  log: Log,
  { worker, workerCount }: WorkerSlot,
): Promise<SharedServices> {
  await requireCreditRate(config, store);
  const secrets = secretKeysOf(config);
  const vault = await Vault.open({
    store: store.credentials,
    secrets,
    isStart: true,
    onUndecryptable: (tenant, provider) => log.error('credential_unreadable', { tenant, provider }),
  });
  const processId = randomText(16);
  const telemetry = new Telemetry(config, log, processId, worker);
  const redis = await openRedis(config, store, log);
  const counters = createCounters(redis, processId);
  const clock = await StoreClock.open(store.database);
  const accounting = await openAccounting(await ensureDeploymentName(store.database), {
    store: withStoreClock(store.ledger, clock),
    now: clock.now,
    dataDir: config.dataDir,
    durability: config.billing.durability,
    processId,
    log,
    onEnded: (request) => telemetry.requestEnded(request),
  });
  const authenticator = new Authenticator(store.directory, clock.now);
  const skills = createSkills(store);
  const cacheStore = redis
    ? new RedisCacheStore(redis)
    : new MemoryCacheStore(config.cache.maxBytes);
  const cache = new ResponseCache(cacheStore, config.cache.ttlSeconds, clock.now);
  const idempotency = new Idempotency(store.claims, clock.now);
  const uploads = new UploadFolder(join(config.dataDir, 'uploads'));
  void uploads.sweep();
  const bodyMemoryBudget = createMemoryBudget('requests', workerCount);
  const answerMemoryBudget = createAnswerMemoryBudget(workerCount);
  const retention = createRetention(config, store, log, clock);
  const changes = new ChangeWatcher(store.directory, () => {
    authenticator.forget();
    vault.forget();
    skills.resolver.forget();
  });
  const health = new Health();
  const serverAddress = { port: config.server.port };
  const jobs = new Jobs({
    ...{ config, store, accounting, health, idempotency, secrets, log, serverAddress },
    now: clock.now,
  });
  await checkObjectStorage(config, store, log);
  return {
    ...{ store, vault, telemetry, redis, counters, accounting, authenticator, changes, skills },
    ...{ health, cache, idempotency, uploads, bodyMemoryBudget, answerMemoryBudget, retention },
    readTurns: {
      lists: new TenantReadQueue(),
      files: new TenantReadQueue(),
      jobs: new TenantReadQueue(),
    },
    ...{
      jobs,
      serverAddress,
      demo: new DemoServer(),
      deadlines: new DeadlineWatcher(),
      unknownModelNames: new UnknownModelNames(),
    },
    now: clock.now,
    periodicTasks: () => [
      ...authenticator.periodicTasks((tenantIds) => vault.refresh(tenantIds)),
      ...changes.periodicTasks(),
      ...clock.periodicTasks(),
      ...accounting.periodicTasks(),
      ...telemetry.recent.periodicTasks(),
      ...idempotency.periodicTasks(),
      ...(counters.together?.slots.periodicTasks() ?? []),
      ...(retention?.periodicTasks() ?? []),
      ...jobs.periodicTasks(),
    ],
  };
}

/** Jobs fail if their files lie elsewhere than this process looks: so the operator is warned. */
async function checkObjectStorage({ objects }: Config, store: Store, log: Log): Promise<void> {
  if (await claimObjectsLocation(store.database, objects.reveal())) return;
  log.warn('objects_elsewhere', {
    reason: `The last start on this database had its objects in another place. ${shareObjectsHint}`,
  });
}

async function openAccounting(deployment: string, deps: AccountingDeps): Promise<Accounting> {
  try {
    claimJournals(deps.dataDir, deployment);
    return await Accounting.open(deps);
  } catch (error) {
    throw journalFailure(error);
  }
}

/** Refuses another rate, which would change what every wallet is worth. */
async function requireCreditRate({ creditsPerUsd, source }: Config, store: Store): Promise<void> {
  const storedRate = await fixCreditRate(store.database, creditsPerUsd);
  if (storedRate === creditsPerUsd) return;
  const message = `must stay ${storedRate}, in which the ledger is kept, not ${creditsPerUsd}`;
  throw new ConfigProblems(source, [{ path: 'credits_per_usd', message }]);
}

/** Processes that serve together on a machine share its memory. */
function createMemoryBudget(what: 'requests' | 'answers', workerCount: number): MemoryBudget {
  const memory = Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
  const refusal = `Too many long ${what} are under way here; try again shortly.`;
  return new MemoryBudget((memory / workerCount) * longTextsFraction, refusal);
}

/**
 * However little memory there is, the longest answer has room where it is alone, and so have the
 * embeddings of one request, which come as several answers at once.
 */
function createAnswerMemoryBudget(workerCount: number): MemoryBudget {
  const memoryBudget = createMemoryBudget('answers', workerCount);
  memoryBudget.raise(3 * replyBytesMax);
  return memoryBudget;
}

function createRetention(
  config: Config,
  store: Store,
  log: Log,
  { now }: StoreClock,
): LogRetention | undefined {
  const { keepDays } = config.logs;
  if (keepDays === null) return undefined;
  return new LogRetention({
    database: store.database,
    keepDays,
    now,
    onDone: (rows) => log.info('logs_removed', { rows, older_than_days: keepDays }),
    onFailure: (error) => log.error('log_retention_failed', { reason: reason(error) }),
  });
}

/** The offline provider, started by the first configuration that wants it. */
class DemoServer {
  #upstream: DemoUpstream | undefined;

  url(): string {
    this.#upstream ??= startDemoUpstream();
    return this.#upstream.url;
  }

  async stop(): Promise<void> {
    await this.#upstream?.stop();
  }
}

/** What has been counted for the limits. It goes on through a reload of the configuration. */
interface Counters {
  readonly rate: RateLimiter;
  readonly concurrency: ConcurrencyLimiter;
  /** Absent without Redis: then this process counts alone. */
  readonly together: SharedLimits | undefined;
}

/** Logs one line when Redis goes and one when it comes back: an outage must not fill the log. */
async function openRedis(
  { redis }: Config,
  { database }: Store,
  log: Log,
): Promise<Redis | undefined> {
  if (redis === null) return undefined;
  const callbacks = {
    onAway: (reason: string) =>
      log.warn('redis_away', { reason, limits: 'counted per process meanwhile' }),
    onBack: () => log.info('redis_back', { limits: 'counted together again' }),
  };
  return Redis.open(redis.reveal(), callbacks, countScripts, await ensureDeploymentName(database));
}

function createCounters(redis: Redis | undefined, processId: string): Counters {
  const counts = redis && new RedisCounts(redis);
  return {
    rate: new RateLimiter(),
    concurrency: new ConcurrencyLimiter(),
    together: counts && { counts, slots: new SharedSlots(counts, processId) },
  };
}

export type Skills = ReturnType<typeof createSkills>;

/** The skills of all tenants: a desk to keep them at, a shelf to take them from. */
function createSkills({ skills: store }: Pick<Store, 'skills'>) {
  const resolver = new SkillResolver(store, builtInSkills);
  const service = new SkillService({
    store,
    builtIn: builtInSkills,
    now: Date.now,
    onChanged: () => resolver.forget(),
  });
  return { resolver, service };
}
