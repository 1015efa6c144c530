import { join } from 'node:path';
import { Authenticator } from '../auth/authenticate.ts';
import { ChangeWatcher } from '../auth/tenant-directory.ts';
import { Vault } from '../auth/vault.ts';
import { MemoryCacheStore } from '../cache/cache-store.ts';
import { Idempotency } from '../cache/idempotency.ts';
import { ResponseCache } from '../cache/response-cache.ts';
import type { Config } from '../config/config.ts';
import { requireCreditRate } from '../config/problems.ts';
import { LiveConfig } from '../control/live-config.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { randomText } from '../core/ids.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { SecretKeys } from '../core/secret.ts';
import { LazyDemoUpstream } from '../demo/server.ts';
import { createReadQueues, type TenantReadQueue } from '../http/read-queue.ts';
import { Jobs, type ListenPort } from '../jobs/jobs.ts';
import type { SharedLimits } from '../limits/admission.ts';
import { ConcurrencyLimiter, SharedSlots } from '../limits/concurrency.ts';
import {
  answerMemoryBudgetFor,
  bodyMemoryBudgetFor,
  type FairShareBudget,
} from '../limits/memory-budget.ts';
import { ProviderKeyLimits } from '../limits/provider-key-limits.ts';
import { RateLimiter } from '../limits/rate.ts';
import { Accounting, type AccountingDeps } from '../money/accounting.ts';
import { claimJournals, journalFailure } from '../money/settle/journal-files.ts';
import { RunningRequests } from '../records/running-requests.ts';
import { UnknownModelNames } from '../records/unknown-model-names.ts';
import { Health } from '../route/health.ts';
import { ProviderKeys } from '../route/provider-keys.ts';
import { configurationScope } from '../store/changes.ts';
import { checkStores } from '../store/check-stores.ts';
import { StoreClock, withStoreClock } from '../store/clock.ts';
import { LogPartitioning } from '../store/log-partitioning.ts';
import type { Store } from '../store/open.ts';
import { RedisCacheStore } from '../store/redis/cache-store.ts';
import { countScripts, RedisCounts } from '../store/redis/counts.ts';
import { Redis } from '../store/redis/redis.ts';
import { LogRetention } from '../store/retention.ts';
import { secretKeysOf } from '../store/secret-key.ts';
import { ensureDeploymentId, pinCreditRate } from '../store/settings.ts';
import { UploadFolder } from '../store/uploads.ts';
import { type Log, reason } from '../telemetry/log.ts';
import { Telemetry } from '../telemetry/telemetry.ts';
import { builtInSkills } from '../tools/skills/built-in.ts';
import { SkillResolver } from '../tools/skills/skill-resolver.ts';
import { SkillService } from '../tools/skills/skill-service.ts';
import { setConnectionReporter } from '../upstream/connection/pool.ts';

/** Services that hold state. They are created once and survive configuration reloads. */
export interface SharedServices {
  readonly store: Store;
  readonly vault: Vault;
  readonly telemetry: Telemetry;
  readonly redis: Redis | undefined;
  readonly counters: Counters;
  readonly accounting: Accounting;
  readonly running: RunningRequests;
  readonly authenticator: Authenticator;
  readonly changes: ChangeWatcher;
  /** The configuration in use: the file's, with the objects of the store. */
  readonly live: LiveConfig;
  readonly skills: Skills;
  readonly health: Health;
  readonly providerKeys: ProviderKeys;
  readonly unknownModelNames: UnknownModelNames;
  readonly cache: ResponseCache;
  readonly idempotency: Idempotency;
  readonly uploads: UploadFolder;
  /** Memory for long request bodies, which are held until their requests end. */
  readonly bodyMemoryBudget: FairShareBudget;
  /** Memory for long non-streaming answers. */
  readonly answerMemoryBudget: FairShareBudget;
  /** Queues of expensive reads, which limit how many a tenant can run at the same time. */
  readonly readQueues: Record<'lists' | 'files' | 'jobs', TenantReadQueue>;
  readonly retention: LogRetention | undefined;
  readonly demo: LazyDemoUpstream;
  readonly jobs: Jobs;
  readonly listenPort: ListenPort;
  /**
   * Enforces the deadlines of provider calls and aborts them when a shutdown times out. Token
   * counts are short and have their own watcher.
   */
  readonly deadlines: DeadlineWatcher;
  /**
   * The store's clock, so that all processes agree on when something has expired, and how far it is
   * ahead of this machine.
   */
  now(): number;
  storeAheadMs(): number;
  periodicTasks(): PeriodicTask[];
}

/** A process's position among the worker processes of a machine. */
export interface WorkerSlot {
  /** The number of this worker, or null if there is only one process. */
  readonly worker: number | null;
  readonly workerCount: number;
}

export async function openServices(
  config: Config,
  store: Store,
  log: Log,
  { worker, workerCount }: WorkerSlot,
): Promise<SharedServices> {
  requireCreditRate(config, await pinCreditRate(store.database, config.creditsPerUsd));
  const secrets = secretKeysOf(config);
  const vault = await openVault(store, secrets, log);
  const processId = randomText(16);
  const telemetry = new Telemetry(config, log, processId, worker);
  setConnectionReporter(telemetry);
  const redis = await openRedis(config, store, log);
  const counters = createCounters(redis, processId);
  const clock = await StoreClock.open(store.database);
  const accounting = await openAccounting(await ensureDeploymentId(store.database), {
    store: withStoreClock(store.ledger, clock),
    now: clock.now,
    dataDir: config.dataDir,
    durability: config.billing.durability,
    processId,
    log,
    onEnded: (request) => telemetry.requestEnded(request),
  });
  const running = createRunningRequests(store, processId, clock, workerCount);
  const authenticator = new Authenticator(store.directory, clock.now);
  const skills = createSkills(store);
  const cache = createCache(config, redis, clock);
  const idempotency = new Idempotency(store.claims, clock.now);
  const uploads = new UploadFolder(join(config.dataDir, 'uploads'));
  void uploads.sweep();
  const retention = createRetention(config, store, log, clock);
  const live = await LiveConfig.open(config, store.configObjects, secrets, log);
  const changes = new ChangeWatcher(store.directory, async (tenants) => {
    authenticator.forget(tenants);
    vault.forget(tenants);
    skills.resolver.forget();
    if (tenants === null || tenants.has(configurationScope)) await live.check();
  });
  const [health, listenPort] = [new Health(), { port: config.server.port }];
  const jobs = new Jobs({
    ...{ config, store, accounting, health, idempotency, secrets, log, listenPort, uploads },
    now: clock.now,
  });
  await checkStores(config, store.database, log);
  return {
    ...{ store, vault, telemetry, redis, counters, accounting, authenticator, changes, skills },
    ...{ running, health, cache, idempotency, uploads, retention, jobs, live, listenPort },
    bodyMemoryBudget: bodyMemoryBudgetFor(workerCount),
    answerMemoryBudget: answerMemoryBudgetFor(workerCount),
    readQueues: createReadQueues(),
    providerKeys: new ProviderKeys(telemetry, new ProviderKeyLimits(counters.shared)),
    ...{ demo: new LazyDemoUpstream(), deadlines: new DeadlineWatcher() },
    unknownModelNames: new UnknownModelNames(),
    ...{ now: clock.now, storeAheadMs: () => clock.aheadMs ?? 0 },
    periodicTasks: () => [
      ...authenticator.periodicTasks((tenantIds) => vault.refresh(tenantIds)),
      ...changes.periodicTasks(),
      ...live.periodicTasks(),
      ...clock.periodicTasks(),
      ...accounting.periodicTasks(),
      ...running.periodicTasks(),
      ...telemetry.recent.periodicTasks(),
      ...idempotency.periodicTasks(),
      ...(counters.shared?.slots.periodicTasks() ?? []),
      ...(retention?.periodicTasks() ?? []),
      ...jobs.periodicTasks(),
    ],
  };
}

function createRunningRequests(
  { database, runningRequests: store }: Store,
  processId: string,
  { now: storeNow }: StoreClock,
  workerCount: number,
): RunningRequests {
  // Several processes on SQLite are the workers of one machine.
  const isAlone = database.engine === 'sqlite' && workerCount === 1;
  return new RunningRequests({ store, processId, storeNow, isAlone });
}

function openVault({ credentials }: Store, secrets: SecretKeys, log: Log): Promise<Vault> {
  return Vault.open({
    store: credentials,
    secrets,
    isStart: true,
    onUndecryptable: (tenant, provider) => log.error('credential_unreadable', { tenant, provider }),
  });
}

function createCache({ cache }: Config, redis: Redis | undefined, { now }: StoreClock) {
  const store = redis ? new RedisCacheStore(redis) : new MemoryCacheStore(cache.maxBytes);
  return new ResponseCache(store, cache.ttlSeconds, now);
}

async function openAccounting(deploymentId: string, deps: AccountingDeps): Promise<Accounting> {
  try {
    claimJournals(deps.dataDir, deploymentId);
    return await Accounting.open(deps);
  } catch (error) {
    throw journalFailure(error);
  }
}

function createRetention(
  config: Config,
  store: Store,
  log: Log,
  { now }: StoreClock,
): LogRetention | undefined {
  const [{ keepDays }, auditKeepDays] = [config.logs, config.audit.keepDays];
  const { logPartitions: partitions } = store.database;
  if (keepDays === null && auditKeepDays === null && !partitions) return undefined;
  const partitioning =
    partitions &&
    new LogPartitioning({
      ...{ partitions, keepDays, now },
      onPartitioned: () => log.info('logs_partitioned', {}),
      onFailure: (reason) => log.warn('log_partitioning_failed', { reason }),
    });
  return new LogRetention({
    database: store.database,
    ...{ partitioning, keepDays, auditKeepDays, now },
    onDone: (rows) => log.info('logs_removed', { rows, older_than_days: keepDays ?? 0 }),
    onFailure: (error) => log.error('log_retention_failed', { reason: reason(error) }),
  });
}

/** Counters behind the rate and concurrency limits. */
interface Counters {
  readonly rate: RateLimiter;
  readonly concurrency: ConcurrencyLimiter;
  /** Counts shared by all processes. Undefined without Redis. */
  readonly shared: SharedLimits | undefined;
}

/**
 * Opens Redis if it is configured. Logs one line when it becomes unreachable and one when it is
 * back.
 */
async function openRedis(
  { redis }: Config,
  { database }: Store,
  log: Log,
): Promise<Redis | undefined> {
  if (redis === null) return undefined;
  const callbacks = {
    onUnreachable: (reason: string) =>
      log.warn('redis_unreachable', { reason, limits: 'counted per process' }),
    onReconnected: () => log.info('redis_recovered', { limits: 'shared by all processes again' }),
  };
  return Redis.open(redis.reveal(), callbacks, countScripts, await ensureDeploymentId(database));
}

function createCounters(redis: Redis | undefined, processId: string): Counters {
  const counts = redis && new RedisCounts(redis);
  return {
    rate: new RateLimiter(),
    concurrency: new ConcurrencyLimiter(),
    shared: counts && { counts, slots: new SharedSlots(counts, processId) },
  };
}

export type Skills = ReturnType<typeof createSkills>;

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
