import { rateWindowsBackMax, slotTtlMs } from '../../core/bounds.ts';
import type {
  RateLimits,
  SharedCounts,
  SharedTake,
  SlotResult,
  WindowCount,
} from '../../limits/shared-counts.ts';
import { type Redis, Script } from './redis.ts';

/**
 * Counts requests, tokens, and slots in Redis. Each operation is one atomic round trip. Uses the
 * clock of Redis, so that processes with different clocks share one window. All keys of a tenant
 * have the same hash tag, so that a cluster keeps them on one node.
 */
export class RedisCounts implements SharedCounts {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  get isUp(): boolean {
    return this.#redis.isUp;
  }

  async take(
    tenantId: string,
    keyId: string,
    limits: RateLimits,
    known: WindowCount,
  ): Promise<SharedTake | undefined> {
    const answer = await this.#redis.run(
      takeScript,
      [rateKey(tenantId, keyId)],
      [limits.requests, limits.tokens ?? -1, known.window, known.requests, known.tokens],
    );
    const [window, requests, tokens, allowed, now] = numbersOf(answer, 5);
    if (now === undefined || window === undefined) return undefined;
    return { window, requests: requests ?? 0, tokens: tokens ?? 0, allowed: allowed === 1, now };
  }

  async addTokens(tenantId: string, keyId: string, tokens: number) {
    const answer = await this.#redis.run(addScript, [rateKey(tenantId, keyId)], [tokens]);
    const [window, requests, counted] = numbersOf(answer, 3);
    if (window === undefined) return undefined;
    return { window, requests: requests ?? 0, tokens: counted ?? 0 };
  }

  async acquire(
    tenantId: string,
    slot: string,
    limit: number,
    released: readonly string[],
  ): Promise<SlotResult | undefined> {
    const answer = await this.#redis.run(
      enterScript,
      [slotsKey(tenantId)],
      [limit, slotTtlMs, slot, ...released],
    );
    const [isFree, running] = numbersOf(answer, 2);
    return running === undefined ? undefined : { isFree: isFree === 1, running };
  }

  async release(tenantId: string, slots: readonly string[]): Promise<void> {
    await this.#redis.run(leaveScript, [slotsKey(tenantId)], slots);
  }

  async renew(tenantId: string, slots: readonly string[]): Promise<void> {
    await this.#redis.run(renewScript, [slotsKey(tenantId)], [slotTtlMs, ...slots]);
  }
}

function rateKey(tenantId: string, keyId: string): string {
  return `{${tenantId}}:rate:${keyId}`;
}

function slotsKey(tenantId: string): string {
  return `{${tenantId}}:running`;
}

/** Returns an empty list for a reply of any other shape, which then counts as no reply. */
function numbersOf(answer: unknown, length: number): readonly number[] {
  const isValid =
    Array.isArray(answer) &&
    answer.length === length &&
    answer.every((item) => typeof item === 'number');
  return isValid ? answer : [];
}

const readTime = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/**
 * A clock that steps back a little opens no new window. If it was far ahead before, its counts move
 * to the current minute, so that no client waits until the clock catches up.
 */
const readWindow = `${readTime}
local window = math.floor(time[1] / 60)
local stored = redis.call('HMGET', KEYS[1], 'window', 'requests', 'tokens')
local last = tonumber(stored[1]) or -1
local requests, tokens, isFresh = 0, 0, true
if last >= window then
  requests, tokens = tonumber(stored[2]), tonumber(stored[3])
  if last <= window + ${rateWindowsBackMax} then window, isFresh = last, false end
end
local function keep()
  redis.call('HSET', KEYS[1], 'window', window, 'requests', requests, 'tokens', tokens)
  if isFresh then redis.call('PEXPIRE', KEYS[1], (window + 2) * 60000 - now) end
end
`;

/** Adopts what the caller has counted in this window, in case Redis lost it. */
const takeScript = new Script(`${readWindow}
if tonumber(ARGV[3]) == window then
  requests = math.max(requests, tonumber(ARGV[4]))
  tokens = math.max(tokens, tonumber(ARGV[5]))
end
local tokensMax = tonumber(ARGV[2])
local allowed = requests < tonumber(ARGV[1]) and (tokensMax < 0 or tokens < tokensMax)
if allowed then
  requests = requests + 1
  keep()
end
return { window, requests, tokens, allowed and 1 or 0, now }
`);

const addScript = new Script(`${readWindow}
tokens = tokens + tonumber(ARGV[1])
keep()
return { window, requests, tokens }
`);

/**
 * Acquires a slot. If none seems free, first removes expired slots, and slots that expire later
 * than possible, because they were acquired while the server's clock was wrong.
 */
const enterScript = new Script(`${readTime}
if #ARGV > 3 then redis.call('ZREM', KEYS[1], unpack(ARGV, 4)) end
local taken = redis.call('ZCARD', KEYS[1])
if taken >= tonumber(ARGV[1]) then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  redis.call('ZREMRANGEBYSCORE', KEYS[1], now + 2 * ARGV[2], '+inf')
  taken = redis.call('ZCARD', KEYS[1])
  if taken >= tonumber(ARGV[1]) then return { 0, taken } end
end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[3])
if taken == 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2) end
return { 1, taken + 1 }
`);

const leaveScript = new Script(`return redis.call('ZREM', KEYS[1], unpack(ARGV))`);

const renewScript = new Script(`${readTime}
for at = 2, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[at]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1] * 2)
return 1
`);

export const countScripts: readonly Script[] = [
  takeScript,
  addScript,
  enterScript,
  leaveScript,
  renewScript,
];
