/**
 * Writes two months of traffic of the tenant `default` into a new store. The figures depend only on
 * the number of the day, so they are the same in every run.
 */
import { join } from 'node:path';
import { noUsage } from '../../src/core/usage.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { book, dayMs, grant, makeRecord } from '../contracts/bookings.ts';
import { makeKey, makeTenant, randomHash } from '../contracts/engines.ts';

const tenantId = 'default';
const days = 62;

const models = [
  {
    model: 'anthropic/claude-sonnet-5',
    provider: 'anthropic',
    prompt: '3.00',
    completion: '15.00',
  },
  { model: 'openai/gpt-5.5', provider: 'openai', prompt: '1.25', completion: '10.00' },
  { model: 'google/gemini-3-flash', provider: 'gemini', prompt: '0.30', completion: '2.50' },
  { model: 'mistral/medium-3', provider: 'mistral', prompt: '0.40', completion: '2.00' },
] as const;

/** Returns the IDs of the keys that the traffic belongs to. */
export async function seedTraffic(dataDir: string, now = Date.now()): Promise<string[]> {
  const store = await openStore(`sqlite:${join(dataDir, 'tollgate.db')}`);
  try {
    const from = now - days * dayMs;
    await store.directory.addTenant(makeTenant({ id: tenantId, name: 'Default', createdAt: from }));
    await grant(store, tenantId, 60_000_000, from);
    const keys = await addKeys(store, from);
    for (let day = 0; day < days; day++) {
      const start = from + day * dayMs;
      const records = recordsOf(day, start, keys).filter(({ createdAt }) => createdAt < now);
      if (records.length > 0) await book(store, records);
    }
    return keys;
  } finally {
    await store.database.close();
  }
}

async function addKeys(store: Store, createdAt: number): Promise<string[]> {
  const names = ['Website', 'Support bot', 'Nightly reports'];
  const keys = names.map((name, index) =>
    makeKey(tenantId, {
      name,
      label: `sk-tg-${['k3v9', 'x7a2', 'p0d4'][index]}…${['7c', '1f', 'e8'][index]}`,
      limitCredits: [null, 4_000_000, 900_000][index] ?? null,
      limitReset: index === 0 ? null : 'monthly',
      models: null,
      scopes: null,
      requestsPerMinute: null,
      expiresAt: null,
      createdAt,
      updatedAt: createdAt,
    }),
  );
  for (const key of keys) await store.directory.addKey(key, randomHash());
  return keys.map(({ id }) => id);
}

function recordsOf(day: number, start: number, keys: readonly string[]): RequestRecord[] {
  const isWeekend = new Date(start).getUTCDay() % 6 === 0;
  const count = Math.round((isWeekend ? 7 : 18) * (1 + day / 90) + ((day * 7) % 5));
  return Array.from({ length: count }, (_, index) => recordOf(day, index, start, keys));
}

function recordOf(day: number, at: number, start: number, keys: readonly string[]): RequestRecord {
  const mix = (day * 31 + at * 17) % 100;
  const offer = models[mix < 44 ? 0 : mix < 72 ? 1 : mix < 90 ? 2 : 3] ?? models[0];
  const isError = (day * 13 + at * 29) % 41 === 0;
  const inputTokens = 800 + ((day * 97 + at * 311) % 5_200);
  const outputTokens = 120 + ((day * 53 + at * 131) % 1_400);
  const cacheReadTokens = mix % 3 === 0 ? 2_000 : 0;
  const firstByteMs = 180 + ((day * 41 + at * 67) % 700);
  const credits = Math.ceil(
    (inputTokens + cacheReadTokens) * Number(offer.prompt) +
      outputTokens * Number(offer.completion),
  );
  const endpoint = { provider: offer.provider, model: offer.model };
  const failed = {
    ...endpoint,
    outcome: 'overloaded',
    status: 529,
    message: 'Overloaded',
    ms: 210,
  };
  return makeRecord({
    tenantId,
    keyId: keys[(day + at * 3) % keys.length] ?? '',
    requestedModel: offer.model,
    ...(isError ? { model: null, provider: null } : endpoint),
    status: isError ? 'error' : 'success',
    error: isError ? 'upstream_error' : null,
    usage: isError ? noUsage : { ...noUsage, inputTokens, cacheReadTokens, outputTokens },
    charges: isError ? noCharges : { ...noCharges, modelCharge: credits },
    prices: isError ? null : { prompt: offer.prompt, completion: offer.completion },
    streamed: true,
    firstByteMs: isError ? null : firstByteMs,
    durationMs: firstByteMs + outputTokens * 6,
    attempts: isError
      ? [failed, { ...failed, provider: 'backup' }]
      : [{ ...endpoint, outcome: 'answered', status: 200, message: null, ms: firstByteMs }],
    createdAt: start + at * 3_000_000,
  });
}
