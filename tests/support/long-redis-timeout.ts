/**
 * Preloaded into gateways whose tests need exact shared counts. A gateway counts locally if Redis
 * takes more than 100 ms, which can happen on a busy machine.
 */
import { Redis } from '../../src/store/redis/redis.ts';

const timeoutMs = 10_000;
const open = Redis.open.bind(Redis);

Redis.open = (url, watcher, scripts, deployment) =>
  open(url, watcher, scripts, deployment, timeoutMs);
