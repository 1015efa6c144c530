/**
 * Preloaded into gateways whose test needs exact shared counts. Usually a gateway that waits a
 * tenth of a second for Redis in vain counts by itself, and a busy machine may be slower than that.
 */
import { Redis } from '../../src/store/redis/redis.ts';

const patienceMs = 10_000;
const open = Redis.open.bind(Redis);

Redis.open = (url, watcher, scripts, deployment) =>
  open(url, watcher, scripts, deployment, patienceMs);
