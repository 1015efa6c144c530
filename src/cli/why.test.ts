import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addCustomer, book, makeRecord } from '../../tests/contracts/bookings.ts';
import { noUsage } from '../core/usage.ts';
import { noCharges } from '../money/price/fee-kinds.ts';
import type { RequestRecord } from '../records/request-record.ts';
import { openStore, type Store } from '../store/open.ts';
import { commandEnvironment } from './command-environment.ts';
import { runCommand } from './dispatch.ts';
import { why } from './why.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-why-'));
let store: Store;

beforeAll(async () => {
  store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
});
afterAll(async () => {
  await store.database.close();
  rmSync(folder, { recursive: true });
});

/** Stores a request with these fields and returns what the command prints about it. */
async function explain(fields: Partial<RequestRecord>): Promise<string> {
  const record = makeRecord({ ...(await addCustomer(store, 1_000)), ...fields });
  await book(store, [record]);
  const out: string[] = [];
  const code = await runCommand(['why', record.requestId, '--data-dir', folder], [why], {
    ...commandEnvironment,
    out: (text) => void out.push(text),
  });
  expect(code).toBe(0);
  return out.join('\n');
}

const usage = { ...noUsage, inputTokens: 10, cacheReadTokens: 4, outputTokens: 3 };

test("why prints the list price and the fee of a call with the tenant's provider key", async () => {
  const text = await explain({
    trafficMode: 'byok',
    usage,
    prices: { prompt: '1', cache_read: '0.25', completion: '2.5', byok_fee_basis_points: '500' },
    charges: { ...noCharges, byokPlatformFee: 1 },
  });
  expect(text).toContain(
    [
      'CHARGE                             AT LIST PRICE',
      'prompt      10 × $1 per million    10',
      'cache_read  4 × $0.25 per million   1',
      'completion  3 × $2.5 per million    7.5',
      'total                              18.5',
    ].join('\n'),
  );
  expect(text).toMatch(
    /^byok platform fee +5% of the list price, rounded up once +1\ncharged +1$/m,
  );
});

test('why prints the full fee and the part that was not charged', async () => {
  const text = await explain({
    trafficMode: 'byok',
    usage,
    prices: { prompt: '1000', completion: '1', byok_fee_basis_points: '375' },
    charges: { ...noCharges, byokPlatformFee: 40 },
  });
  // 3.75% of 14,003 credits is 525.1125.
  expect(text).toMatch(/^byok platform fee +3\.75% of .+ +526\nnot charged +-486\ncharged +40$/m);
});

test('for models priced per minute, why prints the usage in seconds and no tokens', async () => {
  const text = await explain({
    usage: noUsage,
    units: { audioMs: 3_217 },
    prices: { minute: '0.006' },
    charges: { ...noCharges, modelCharge: 322 },
  });
  expect(text).toMatch(/^minute +3\.217 s × \$0\.006 per minute +321\.7$/m);
  expect(text).not.toContain('tokens');
});

test("why marks attempts with the tenant's provider key, and charges nothing if they fail", async () => {
  const attempt = { provider: 'north', model: 'acme/chat', status: 401, message: null, ms: 5 };
  const text = await explain({
    trafficMode: 'byok',
    status: 'error',
    error: 'upstream_error',
    model: null,
    provider: null,
    usage: noUsage,
    prices: null,
    charges: noCharges,
    attempts: [
      { ...attempt, own_account: true, outcome: 'credential' },
      { ...attempt, outcome: 'credential' },
    ],
  });
  expect(text).toMatch(/^ *1 +north \(BYOK\) +acme\/chat +credential +401/m);
  expect(text).toMatch(/^ *2 +north +acme\/chat +credential +401/m);
  expect(text).not.toContain('AT LIST PRICE');
  expect(text).not.toContain('platform fee');
});

test('why lists tool fees after the charge of the model', async () => {
  const text = await explain({
    usage,
    prices: { prompt: '1', completion: '1' },
    charges: { ...noCharges, modelCharge: 17, managedToolFee: 20 },
    searches: 2,
  });
  expect(text).toMatch(/^cache_read +4 × \$1 per million +4$/m);
  expect(text).not.toContain('rounded up');
  expect(text).toMatch(/^managed tool fee +2 web searches +20\ncharged +37$/m);
});

test('why says that prices for long prompts apply', async () => {
  const steps = [{ above_tokens: 12, prompt: '2' }];
  const prices = { prompt: '1', completion: '1', long_prompts: steps };
  const text = await explain({ usage, prices, charges: { ...noCharges, modelCharge: 27 } });
  // The prompt has 14 tokens, so the 10 uncached ones cost 2 each.
  expect(text).toMatch(/^prompt +10 × \$2 per million +20$/m);
  expect(text).toContain('\n\nThe prices for prompts above 12 tokens apply.');
});

test('why says that an answer was replayed', async () => {
  expect(await explain({ cacheHit: true, finishReason: 'stop' })).toMatch(
    /^ended +complete, replayed from an earlier answer, finish reason "stop"$/m,
  );
});

test.each(['upstream_error', 'service_unavailable'])(
  'why says that an answer cut off by %s is charged',
  async (error) => {
    const attempt = { provider: 'a', model: 'b/c', outcome: 'answered', status: 200, ms: 5 };
    const text = await explain({
      status: 'error',
      error,
      attempts: [{ ...attempt, message: null }],
      charges: { ...noCharges, modelCharge: 7 },
    });
    const failure = 'The answer was cut off\\. The part that was received is charged\\.';
    expect(text).toMatch(new RegExp(`^ended +${error}\\. ${failure}$`, 'm'));
  },
);

test('why prints the ID of a deleted key', async () => {
  expect(await explain({ keyId: 'key_deleted' })).toMatch(/^key +key_deleted, deleted$/m);
});
