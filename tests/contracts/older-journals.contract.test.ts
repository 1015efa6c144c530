/** Journals of older versions must be booked and explained with the prices of that time. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { replayJournals } from '../../src/money/settle/replay.ts';
import { receiptObject } from '../../src/records/receipt.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { journalLine } from '../support/money/journal-line.ts';
import { addCustomer, discrepancies } from './bookings.ts';
import { engines } from './engines.ts';

/** Larger than any process ID. */
const deadPid = 2 ** 30;

/** From a version that had a single price for cache writes of any lifetime. */
const older = {
  usage: `{"inputTokens":10,"cacheReadTokens":20,"cacheWriteTokens":900,"outputTokens":5,
    "reasoningTokens":0}`,
  prices: '{"prompt":"2","completion":"8","cache_read":"0.2","cache_write":"2.5"}',
  // 10 × 2 + 20 × 0.2 + 900 × 2.5 + 5 × 8
  charge: 2_314,
};

const newer = {
  usage: `{"inputTokens":10,"cacheReadTokens":20,"cacheWriteTokens":400,
    "cacheWrite1hTokens":500,"outputTokens":5,"reasoningTokens":0}`,
  prices: `{"prompt":"2","completion":"8","cache_read":"0.2","cache_write":"2.5",
    "cache_write_1h":"4"}`,
  // 10 × 2 + 20 × 0.2 + 400 × 2.5 + 500 × 4 + 5 × 8
  charge: 3_064,
};

describe.each(engines.map((engine) => ({ ...engine })))('replayJournals on $name', ({ empty }) => {
  const root = mkdtempSync(join(tmpdir(), 'tollgate-older-journals-'));
  let store: Store;
  let remove: () => void;

  beforeAll(async () => {
    const database = await empty();
    store = await openStore(database.url);
    remove = database.remove;
  }, 120_000);
  afterAll(async () => {
    expect(await discrepancies(store)).toEqual([]);
    await store.database.close();
    remove();
    rmSync(root, { recursive: true });
  });

  async function booked({ usage, prices, charge }: typeof older, units = '{}') {
    const { tenantId, keyId } = await addCustomer(store, 10_000);
    const requestId = crypto.randomUUID();
    const line = `{"kind":"settled","settlement":{"record":{"requestId":"${requestId}",
      "tenantId":"${tenantId}","keyId":"${keyId}","operation":"chat","requestedModel":"acme/chat",
      "model":"acme/chat","provider":"acme","status":"success","error":null,
      "trafficMode":"shared","usage":${usage},"units":${units},"usageEstimated":false,
      "charges":{"modelCharge":${charge},"byokPlatformFee":0,"managedToolFee":0,
      "agentRuntimeFee":0},"prices":${prices},"searches":0,"skills":[],"note":null,
      "finishReason":"stop","streamed":false,"cancelled":false,"cacheHit":false,
      "firstByteMs":3,"durationMs":5,"endUser":null,"attempts":[],
      "createdAt":1800000000000},"writtenOff":0,"keyAccount":null,"keyCharge":0}}`;
    const folder = join(root, `${hostname()}~${deadPid}~dead`);
    mkdirSync(folder);
    writeFileSync(join(folder, '00000000.jsonl'), journalLine(line.replace(/\n */g, '')));
    expect(await replayJournals(root, store.ledger, Date.now())).toBe(1);
    const record = await store.requestLog.find(tenantId, requestId);
    if (!record) throw new Error("The request wasn't booked.");
    expect(await store.creditStore.balance(tenantId)).toMatchObject({ balance: 10_000 - charge });
    return receiptObject(record, 1_000_000);
  }

  const sumOf = ({ lines }: ReturnType<typeof receiptObject>) =>
    lines.reduce((sum, { credits }) => sum + Number(credits), 0);

  test('books an older journal at the single price of cache writes', async () => {
    const receipt = await booked(older);
    expect(receipt.tokens).toMatchObject({ cache_write: 900, cache_write_1h: 0, prompt: 930 });
    expect([sumOf(receipt), receipt.cost]).toEqual([2_314, 2_314]);
  });

  test('explains each call of an older request that has several', async () => {
    // The calls have 30 and 900 prompt tokens. Only the second is above the price step.
    const calls = `{"calls":[{"inputTokens":10,"cacheReadTokens":20,"cacheWriteTokens":0,
      "outputTokens":5,"reasoningTokens":0},{"inputTokens":0,"cacheReadTokens":0,
      "cacheWriteTokens":900,"outputTokens":0,"reasoningTokens":0}]}`;
    const step = '"long_prompts":[{"above_tokens":899,"prompt":"9"}]';
    const stepped = `${older.prices.slice(0, -1)},${step}}`;
    const receipt = await booked({ ...older, prices: stepped }, calls);
    expect([sumOf(receipt), receipt.prices_above_tokens]).toEqual([2_314, 899]);
  });

  test('books a current journal with a separate price for 1-hour cache writes', async () => {
    const receipt = await booked(newer);
    expect(receipt.tokens).toMatchObject({ cache_write: 400, cache_write_1h: 500, prompt: 930 });
    expect([sumOf(receipt), receipt.cost]).toEqual([3_064, 3_064]);
  });
});
