import type { Config } from '../config/config.ts';
import type { Together } from '../limits/admit.ts';
import { ConcurrencyLimiter } from '../limits/concurrency.ts';
import { RateLimiter } from '../limits/rate.ts';
import { SharedPlaces } from '../limits/shared-places.ts';
import { deploymentOf } from '../store/deployment.ts';
import type { Store } from '../store/open.ts';
import { countScripts, RedisCounts } from '../store/redis/counts.ts';
import { Redis } from '../store/redis/redis.ts';
import type { Log } from '../telemetry/log.ts';

/** What has been counted for the limits. It goes on through a reload of the configuration. */
export interface Counters {
  readonly rate: RateLimiter;
  readonly concurrency: ConcurrencyLimiter;
  /** Absent without Redis: then this process counts alone. */
  readonly together: Together | undefined;
}

/** Logs one line when Redis goes and one when it comes back: an outage must not fill the log. */
export async function openRedis(
  { redis }: Config,
  { database }: Store,
  log: Log,
): Promise<Redis | undefined> {
  if (redis === null) return undefined;
  const watcher = {
    onAway: (reason: string) =>
      log.warn('redis_away', { reason, limits: 'counted per process meanwhile' }),
    onBack: () => log.info('redis_back', { limits: 'counted together again' }),
  };
  return Redis.open(redis.reveal(), watcher, countScripts, await deploymentOf(database));
}

export function makeCounters(redis: Redis | undefined, processId: string): Counters {
  const counts = redis && new RedisCounts(redis);
  return {
    rate: new RateLimiter(),
    concurrency: new ConcurrencyLimiter(),
    together: counts && { counts, places: new SharedPlaces(counts, processId) },
  };
}
