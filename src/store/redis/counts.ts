import { rateWindowsBackMax, slotTtlMs } from '../../core/bounds.ts';
import type {
  CountedKey,
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
    key: CountedKey,
    limits: RateLimits,
    known: WindowCount,
  ): Promise<SharedTake | undefined> {
    const { tenantRequests: tenantMax } = limits;
    const answer = await this.#redis.run(
      takeScript,
      tenantMax === null ? [rateKey(key)] : [rateKey(key), tenantRateKey(key)],
      [
        ...[limits.requests, limits.tokens ?? -1, tenantMax ?? -1],
        ...[known.window, known.requests, known.tokens, known.tenantRequests],
      ],
    );
    const [window, requests = 0, tokens = 0, tenantRequests = 0, allowed, now] = numbersOf(
      answer,
      6,
    );
    if (now === undefined || window === undefined) return undefined;
    return { window, requests, tokens, tenantRequests, allowed: allowed === 1, now };
  }

  async addTokens(key: CountedKey, tokens: number): Promise<WindowCount | undefined> {
    const answer = await this.#redis.run(addScript, [rateKey(key)], [tokens]);
    const [window, requests = 0, counted = 0] = numbersOf(answer, 3);
    if (window === undefined) return undefined;
    return { window, requests, tokens: counted, tenantRequests: 0 };
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

function rateKey({ tenantId, keyId }: CountedKey): string {
  return `{${tenantId}}:rate:${keyId}`;
}

function tenantRateKey({ tenantId }: CountedKey): string {
  return `{${tenantId}}:rate`;
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
 * Reads the counts of a key, and of its tenant if that has a limit, in one window. A clock that
 * steps back a little opens no new window. If it was far ahead before, its counts move to the
 * current minute, so that no client waits until the clock catches up.
 */
const readWindow = `${readTime}
local minute = math.floor(time[1] / 60)
local window, counts = minute, {}
for i, name in ipairs(KEYS) do
  local stored = redis.call('HMGET', name, 'window', 'requests', 'tokens')
  local last = tonumber(stored[1]) or -1
  if last <= minute + ${rateWindowsBackMax} then window = math.max(window, last) end
  counts[i] = { last = last, requests = tonumber(stored[2]), tokens = tonumber(stored[3]) }
end
for _, count in ipairs(counts) do
  if count.last < window then count.requests, count.tokens = 0, 0 end
end
local own, tenant = counts[1], counts[2]
local function keep()
  for i, name in ipairs(KEYS) do
    local count = counts[i]
    redis.call('HSET', name, 'window', window, 'requests', count.requests, 'tokens', count.tokens)
    if count.last ~= window then redis.call('PEXPIRE', name, (window + 2) * 60000 - now) end
  end
end
`;

/** Adopts what the caller has counted in this window, in case Redis lost it. */
const takeScript = new Script(`${readWindow}
local max, tokensMax, tenantMax = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if tonumber(ARGV[4]) == window then
  own.requests = math.max(own.requests, tonumber(ARGV[5]))
  own.tokens = math.max(own.tokens, tonumber(ARGV[6]))
  if tenant then tenant.requests = math.max(tenant.requests, tonumber(ARGV[7])) end
end
local allowed = own.requests < max and (tokensMax < 0 or own.tokens < tokensMax)
  and (not tenant or tenant.requests < tenantMax)
if allowed then
  for _, count in ipairs(counts) do count.requests = count.requests + 1 end
  keep()
end
local ofTenant = tenant and tenant.requests or 0
return { window, own.requests, own.tokens, ofTenant, allowed and 1 or 0, now }
`);

const addScript = new Script(`${readWindow}
own.tokens = own.tokens + tonumber(ARGV[1])
keep()
return { window, own.requests, own.tokens }
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
