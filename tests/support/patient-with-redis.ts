/**
 * Loaded into a gateway before its own code, where a test counts to the last one: a gateway that
 * waits a tenth of a second for Redis counts alone when a busy machine is slower than that.
 */
import { Redis } from '../../src/store/redis/redis.ts';

const patienceMs = 10_000;
const open = Redis.open.bind(Redis);

Redis.open = (url, watcher, scripts, deployment) =>
  open(url, watcher, scripts, deployment, patienceMs);
