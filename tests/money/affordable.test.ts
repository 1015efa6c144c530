/**
 * What a wallet can pay for in the end, on a real gateway: a hold is for the first 4,096 tokens
 * out, but no answer may cost more than there is. One credit a token in, two a token out; requests
 * of 400 bytes are held for with 134 tokens in.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { discrepancies } from '../support/book-check.ts';
import { makeByokTenant } from '../support/byok.ts';
import {
  noUsage,
  say,
  startFakeUpstream,
  status500,
  weirdUsage,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
  const cheap = { provider: 'fake', model: 'chat', pricing: { prompt: '1', completion: '2' } };
  const dear = { provider: 'fake', model: 'dear', pricing: { prompt: '1', completion: '20' } };
  const endpoints = [cheap];
  const most = { max_completion_tokens: 64_000 };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: { fake },
    models: [
      chatModel('test/long', endpoints, most),
      chatModel('test/open', endpoints),
      chatModel('test/tight', endpoints, { ...most, context_length: 64_133 }),
      chatModel('test/cents', [{ ...cheap, pricing: { prompt: '0.1', completion: '0.3' } }], most),
      chatModel(
        'test/two',
        [
          { ...dear, priority: 0 },
          { ...cheap, priority: 1 },
        ],
        most,
      ),
    ],
  });
});
afterAll(async () => {
  expect(await discrepancies(gateway.store.database)).toEqual([]);
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

function bytes400(fields: object): Record<string, unknown> {
  const body = (content: string) => ({ messages: [{ role: 'user', content }], ...fields });
  return body('x'.repeat(400 - JSON.stringify(body('')).length));
}

const counted = (prompt_tokens: number, completion_tokens: number) =>
  weirdUsage({ prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens });

let tenants = 0;
const tenantWith = (credits: number) => makeByokTenant(gateway, `afford-${++tenants}`, credits);

/** The limit that the upstream was told. */
async function toldLimit(fields: object, key: string): Promise<unknown> {
  upstream.reset();
  upstream.script('chat', counted(10, 1));
  const reply = await gateway.post(bytes400(fields), { key });
  expect(reply.status).toBe(200);
  const sent = upstream.book[0]?.json;
  return isObject(sent) ? sent.max_tokens : 'nothing was sent';
}

describe('the limit that is sent', () => {
  test('is lowered to what the wallet affords, far beyond the first hold', async () => {
    const { key } = await tenantWith(20_134);
    expect(await toldLimit({ model: 'test/long', max_tokens: 30_000 }, key)).toBe(10_000);
  });

  test('is named where the client named none and the model would go further', async () => {
    const { key } = await tenantWith(20_134);
    expect(await toldLimit({ model: 'test/long' }, key)).toBe(10_000);
  });

  test('is the client’s own where the wallet affords it', async () => {
    const { key } = await tenantWith(134 + 60_000);
    expect(await toldLimit({ model: 'test/long', max_tokens: 30_000 }, key)).toBe(30_000);
  });

  test('is the model’s where the client names none and the wallet affords it', async () => {
    const { key } = await tenantWith(134 + 2 * 64_000);
    expect(await toldLimit({ model: 'test/long' }, key)).toBe(64_000);
  });

  test('is left out where it may not fit beside the prompt: many servers refuse that', async () => {
    const { key } = await tenantWith(1_000_000);
    expect(await toldLimit({ model: 'test/tight' }, key)).toBeUndefined();
  });

  test('is left out where nobody knows what the model takes: it might refuse it', async () => {
    const { key } = await tenantWith(20_134);
    expect(await toldLimit({ model: 'test/open' }, key)).toBeUndefined();
  });

  test('is what a key’s own limit affords', async () => {
    const key = await gateway.makeKey({ limit: 12_134 });
    expect(await toldLimit({ model: 'test/long' }, key)).toBe(6_000);
  });

  test('grows with the wallet at once', async () => {
    const { id, key } = await tenantWith(20_134);
    const asked = { model: 'test/long', max_tokens: 30_000 };
    expect(await toldLimit(asked, key)).toBe(10_000);
    const { creditBook } = gateway.store;
    const now = Date.now();
    await creditBook.change({ tenantId: id, amount: 20_012, note: '', idempotencyKey: null, now });
    // 12 credits of the first are gone.
    expect(await toldLimit(asked, key)).toBe(20_000);
  });
});

test('operators see the same sums as tenants, though gateways have credits on lease', async () => {
  const { id, key } = await tenantWith(5_000);
  await toldLimit({ model: 'test/open', max_tokens: 100 }, key);
  const data = async (path: string) =>
    (await gateway.get(path, { key: gateway.keys.admin })).json.data;
  const tenants = (await data('/admin/v1/tenants?limit=100')) as TenantRow[];
  expect(tenants.find((tenant) => tenant.id === id)?.credits).toMatchObject({ total: 4_988 });
  const total = tenants.reduce((sum, { credits }) => sum + credits.total, 0);
  const credits = { total, held: 0, available: total };
  expect(await data('/admin/v1/overview')).toMatchObject({ tenants: tenants.length, credits });
});

interface TenantRow {
  readonly id: string;
  readonly credits: { readonly total: number };
}

describe('an answer that is short for want of credits', () => {
  const asked = { model: 'test/long', max_tokens: 1_000, temperature: 0 };

  test('is not given again to who can pay for a longer one', async () => {
    upstream.script('chat', say('Once', { finish: 'length' }));
    const { json } = await gateway.post(bytes400(asked), {
      key: await gateway.makeKey({ limit: 200 }),
    });
    expect(json.choices).toMatchObject([{ finish_reason: 'length' }]);
    upstream.script('chat', say('Once upon a time'));
    const whole = await gateway.post(bytes400(asked));
    expect(whole.json.choices).toMatchObject([{ message: { content: 'Once upon a time' } }]);
    // That one is, even to who could not have paid for it.
    const again = await gateway.post(bytes400(asked), {
      key: await gateway.makeKey({ limit: 200 }),
    });
    expect([again.json.choices, upstream.book.length]).toEqual([whole.json.choices, 2]);
  });

  test('is given again by its name: it was paid for', async () => {
    const { key } = await tenantWith(200);
    upstream.script('chat', say('Once', { finish: 'length' }));
    const headers = { 'idempotency-key': 'short' };
    const first = await gateway.post(bytes400(asked), { key, headers });
    const again = await gateway.post(bytes400(asked), { key, headers });
    expect([again.json.choices, upstream.book.length]).toEqual([first.json.choices, 1]);
  });
});

describe('an answer as long as its limit', () => {
  test('whole costs the wallet its last credit and nobody anything more', async () => {
    const { id, key } = await tenantWith(20_134);
    upstream.script('chat', counted(134, 10_000));
    const { json, requestId } = await gateway.post(bytes400({ model: 'test/long' }), { key });
    expect(json.usage).toMatchObject({ cost: 20_134 });
    const { note } = await gateway.record(requestId, id);
    expect(note).toBeNull();
    expect(await gateway.store.creditBook.balance(id)).toMatchObject({ balance: 0 });
  });

  test.each([
    ['test/long', 20_134, 10_000],
    // 13.4 credits for the prompt and 2,999.4 for the rest: no stretch of it is a whole number.
    ['test/cents', 3_013, 9_998],
    // All there is was held for the dearer offer, which fails.
    ['test/two', 20_134, 10_000],
  ])('as a stream of %s comes to its end, without an error', async (model, credits, most) => {
    const { id, key } = await tenantWith(credits);
    const text = 'word'.repeat(most);
    const usage = { prompt_tokens: 134, completion_tokens: most, total_tokens: 134 + most };
    upstream.script('dear', status500());
    upstream.script('chat', weirdUsage(usage, say(text, { chunks: 50, chunkDelayMs: 2 })));
    const heard = await gateway.stream(bytes400({ model, stream: true }), { key });
    expect([heard.error, heard.content.length]).toEqual([undefined, text.length]);
    expect(upstream.book.at(-1)?.json).toMatchObject({ max_tokens: most });
    expect(await gateway.record(heard.requestId, id)).toMatchObject({
      charges: { modelCharge: credits },
    });
    expect(await gateway.store.creditBook.balance(id)).toMatchObject({ balance: 0 });
  });

  test('from a model without one goes on until nearly nothing is left', async () => {
    const { key } = await tenantWith(134 + 2 * 6_000);
    upstream.script('chat', noUsage(say('abc'.repeat(9_000), { chunks: 900, chunkDelayMs: 1 })));
    const heard = await gateway.stream(bytes400({ model: 'test/open' }), { key });
    expect(heard.error?.type).toBe('insufficient_credits');
    // 6,000 tokens of three characters are held; the piece that goes beyond is the last.
    expect(heard.content.length).toBeWithin(18_000, 18_000 + 3_000);
  });
});
