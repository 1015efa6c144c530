/**
 * What a wallet can pay for in the end, on a real gateway: a hold is for the first 4,096 tokens
 * out, but no answer may cost more than there is. One credit a token in, two a token out; requests
 * of 400 bytes are held for with 134 tokens in.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { discrepancies } from '../support/book-check.ts';
import { makeByokTenant } from '../support/byok.ts';
import { noUsage, say, startFakeUpstream, weirdUsage } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
  const endpoints = [
    { provider: 'fake', model: 'chat', pricing: { prompt: '1', completion: '2' } },
  ];
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: { fake },
    models: [
      chatModel('test/long', endpoints, { max_completion_tokens: 64_000 }),
      chatModel('test/open', endpoints),
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
  expect(await data('/admin/v1/overview')).toMatchObject({
    tenants: tenants.length,
    credits: { total, held: 0, available: total },
  });
});

interface TenantRow {
  readonly id: string;
  readonly credits: { readonly total: number };
}

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

  test('as a stream comes to its end, without an error', async () => {
    const { id, key } = await tenantWith(20_134);
    const text = 'word'.repeat(10_000);
    upstream.script(
      'chat',
      weirdUsage(
        { prompt_tokens: 134, completion_tokens: 10_000, total_tokens: 10_134 },
        say(text, { chunks: 50 }),
      ),
    );
    const heard = await gateway.stream(bytes400({ model: 'test/long' }), { key });
    expect([heard.error, heard.content.length]).toEqual([undefined, text.length]);
    expect(await gateway.record(heard.requestId, id)).toMatchObject({
      charges: { modelCharge: 20_134 },
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
