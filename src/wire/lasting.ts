import { totalmem } from 'node:os';
import { join } from 'node:path';
import { Authenticator } from '../auth/authenticate.ts';
import { ChangeWatch } from '../auth/change-watch.ts';
import { Vault } from '../auth/vault.ts';
import { Books, type BooksParts } from '../books.ts';
import { Idempotency } from '../cache/idempotency.ts';
import { MemoryShelf } from '../cache/memory-shelf.ts';
import { ResponseCache } from '../cache/response-cache.ts';
import type { Config } from '../config/config.ts';
import { ConfigProblems } from '../config/problems.ts';
import { longTextsPart, replyBytesMax } from '../core/bounds.ts';
import type { Chore } from '../core/chore.ts';
import { randomText } from '../core/ids.ts';
import { shareObjects } from '../core/missing-object.ts';
import { SharedRoom } from '../core/shared-room.ts';
import { Watch } from '../core/watch.ts';
import { type DemoUpstream, startDemoUpstream } from '../demo/demo-upstream.ts';
import { ReadTurns } from '../http/read-turns.ts';
import { claimJournals, journalFailure } from '../ledger/journal-folder.ts';
import { StrangeNames } from '../record/strange-names.ts';
import { Health } from '../route/health.ts';
import { byStoreTime, StoreClock } from '../store/clock.ts';
import { fixCreditRate } from '../store/credit-rate.ts';
import { deploymentOf } from '../store/deployment.ts';
import { claimPlace } from '../store/objects/place.ts';
import type { Store } from '../store/open.ts';
import type { Redis } from '../store/redis/redis.ts';
import { RedisShelf } from '../store/redis/shelf.ts';
import { LogRetention } from '../store/retention.ts';
import { secretKeysOf } from '../store/secret-key.ts';
import { UploadFolder } from '../store/uploads.ts';
import { type Log, reason } from '../telemetry/log.ts';
import { type Counters, makeCounters, openRedis } from './counters.ts';
import { type Door, Jobs } from './jobs.ts';
import { makeSkills, type Skills } from './skills.ts';
import { Telemetry } from './telemetry.ts';

/** Everything that remembers something: made once, and left alone by a reload. */
export interface Lasting {
  readonly store: Store;
  readonly vault: Vault;
  readonly telemetry: Telemetry;
  readonly redis: Redis | undefined;
  readonly counters: Counters;
  readonly books: Books;
  readonly authenticator: Authenticator;
  readonly changes: ChangeWatch;
  readonly skills: Skills;
  readonly health: Health;
  readonly strangeNames: StrangeNames;
  readonly cache: ResponseCache;
  readonly idempotency: Idempotency;
  readonly uploads: UploadFolder;
  /** Room for long bodies, which are in memory until their requests have ended. */
  readonly bodyRoom: SharedRoom;
  /** Room for long answers that come whole, which are in memory likewise. */
  readonly answerRoom: SharedRoom;
  /** A reload that made new ones would give each tenant turns beside those it has. */
  readonly readTurns: Record<'lists' | 'files' | 'jobs', ReadTurns>;
  readonly retention: LogRetention | undefined;
  readonly demo: Demo;
  readonly jobs: Jobs;
  readonly door: Door;
  /**
   * Watches the deadlines of calls to providers, and breaks them off when a shutdown cannot wait.
   * Counts of tokens have a watch of their own: they are short.
   */
  readonly watch: Watch;
  /** The clock by which processes agree when something has expired. */
  now(): number;
  chores(): Chore[];
}

/** One process among those that serve together on a machine. */
export interface CrewPlace {
  /** The number of this process; null when it is the only one. */
  readonly worker: number | null;
  /** How many processes there are. */
  readonly crew: number;
}

export async function openLasting(
  config: Config,
  store: Store,
  log: Log,
  { worker, crew }: CrewPlace,
): Promise<Lasting> {
  await keepCreditRate(config, store);
  const secrets = secretKeysOf(config);
  const vault = await Vault.open({
    store: store.credentials,
    secrets,
    isStart: true,
    onUnreadable: (tenant, provider) => log.error('credential_unreadable', { tenant, provider }),
  });
  const processId = randomText(16);
  const telemetry = new Telemetry(config, log, processId, worker);
  const redis = await openRedis(config, store, log);
  const counters = makeCounters(redis, processId);
  const clock = await StoreClock.open(store.database);
  const books = await openBooks(await deploymentOf(store.database), {
    store: byStoreTime(store.ledger, clock),
    now: clock.now,
    dataDir: config.dataDir,
    durability: config.billing.durability,
    processId,
    log,
    ended: (request) => telemetry.ended(request),
  });
  const authenticator = new Authenticator(store.directory, clock.now);
  const skills = makeSkills(store);
  const shelf = redis ? new RedisShelf(redis) : new MemoryShelf(config.cache.maxBytes);
  const cache = new ResponseCache(shelf, config.cache.ttlSeconds, clock.now);
  const idempotency = new Idempotency(store.claims, clock.now);
  const uploads = new UploadFolder(join(config.dataDir, 'uploads'));
  void uploads.sweep();
  const bodyRoom = roomFor('requests', crew);
  const answerRoom = roomForAnswers(crew);
  const retention = makeRetention(config, store, log, clock);
  const changes = new ChangeWatch(store.directory, () => {
    authenticator.forget();
    vault.forget();
    skills.shelf.forget();
  });
  const health = new Health();
  const door = { port: config.server.port };
  const jobs = new Jobs({
    ...{ config, store, books, health, idempotency, secrets, log, door },
    now: clock.now,
  });
  await lookForObjects(config, store, log);
  return {
    ...{ store, vault, telemetry, redis, counters, books, authenticator, changes, skills },
    ...{ health, cache, idempotency, uploads, bodyRoom, answerRoom, retention },
    readTurns: { lists: new ReadTurns(), files: new ReadTurns(), jobs: new ReadTurns() },
    ...{ jobs, door, demo: new Demo(), watch: new Watch(), strangeNames: new StrangeNames() },
    now: clock.now,
    chores: () => [
      ...authenticator.chores((tenantIds) => vault.readAgain(tenantIds)),
      ...changes.chores(),
      ...clock.chores(),
      ...books.chores(),
      ...telemetry.recent.chores(),
      ...idempotency.chores(),
      ...(counters.together?.places.chores() ?? []),
      ...(retention?.chores() ?? []),
      ...jobs.chores(),
    ],
  };
}

/** Jobs fail if their files lie elsewhere than this process looks: so the operator is warned. */
async function lookForObjects({ objects }: Config, store: Store, log: Log): Promise<void> {
  if (await claimPlace(store.database, objects.reveal())) return;
  log.warn('objects_elsewhere', {
    reason: `The last start on this database had its objects in another place. ${shareObjects}`,
  });
}

async function openBooks(deployment: string, parts: BooksParts): Promise<Books> {
  try {
    claimJournals(parts.dataDir, deployment);
    return await Books.open(parts);
  } catch (thrown) {
    throw journalFailure(thrown);
  }
}

/** Refuses another rate, which would change what every wallet is worth. */
async function keepCreditRate({ creditsPerUsd, source }: Config, store: Store): Promise<void> {
  const kept = await fixCreditRate(store.database, creditsPerUsd);
  if (kept === creditsPerUsd) return;
  const message = `must stay ${kept}, in which the ledger is kept, not ${creditsPerUsd}`;
  throw new ConfigProblems(source, [{ path: 'credits_per_usd', message }]);
}

/** Processes that serve together on a machine share its memory. */
function roomFor(what: 'requests' | 'answers', crew: number): SharedRoom {
  const memory = Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
  const refusal = `Too many long ${what} are under way here; try again shortly.`;
  return new SharedRoom((memory / crew) * longTextsPart, refusal);
}

/**
 * However little memory there is, the longest answer has room where it is alone, and so have the
 * embeddings of one request, which come as several answers at once.
 */
function roomForAnswers(crew: number): SharedRoom {
  const room = roomFor('answers', crew);
  room.widen(3 * replyBytesMax);
  return room;
}

function makeRetention(
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
    onFailure: (thrown) => log.error('log_retention_failed', { reason: reason(thrown) }),
  });
}

/** The offline provider, started by the first configuration that wants it. */
class Demo {
  #upstream: DemoUpstream | undefined;

  url(): string {
    this.#upstream ??= startDemoUpstream();
    return this.#upstream.url;
  }

  async stop(): Promise<void> {
    await this.#upstream?.stop();
  }
}
