/** Prices have start times, and plans have margins. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { fieldsOf, objectsIn } from '../../src/core/json.ts';
import { marginObject, receiptObject } from '../../src/records/receipt.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { chatAnswer, startFakeUpstream, words } from '../support/fake-upstream.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { waitUntil } from '../support/wait-until.ts';

const upstream = startFakeUpstream();
const started = Date.UTC(2026, 0, 1);
const modelNamed = (id: string) => ({
  id,
  name: id,
  input_modalities: ['text'],
  output_modalities: ['text'],
  endpoints: [{ provider: 'acme', model: 'chat', pricing: { prompt: '1', completion: '1' } }],
});
const settings = {
  providers: { acme: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: null } },
  models: [
    modelNamed('acme/chat'),
    modelNamed('acme/changing'),
    modelNamed('acme/history'),
    {
      ...modelNamed('acme/two'),
      endpoints: [
        { provider: 'acme', model: 'chat', pricing: { prompt: '1', completion: '1' } },
        { provider: 'acme', model: 'fast', pricing: { prompt: '2', completion: '2' } },
      ],
    },
  ],
  prices: [
    {
      model: 'acme/history',
      provider: 'acme',
      from: new Date(started).toISOString(),
      pricing: { prompt: '1000', completion: '10000' },
    },
    {
      model: 'acme/history',
      provider: 'acme',
      from: '2100-01-01T00:00:00Z',
      pricing: { prompt: '7', completion: '7' },
    },
  ],
};

let gateway: InProcessGateway;
let other: InProcessGateway;
beforeAll(async () => {
  upstream.script('chat', chatAnswer(words(6)));
  gateway = await InProcessGateway.start(settings);
  const environment = { DATABASE_URL: `sqlite:${gateway.folder}/tollgate.db` };
  other = await InProcessGateway.start({ ...settings, environment });
});
afterAll(async () => {
  await other.stop();
  await gateway.stop();
  upstream.stop();
});

async function send(method: string, path: string, body?: object) {
  const response = await fetch(`${gateway.url}/admin/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${gateway.keys.admin}` },
    ...(body && { body: JSON.stringify(body) }),
  });
  const json = fieldsOf(await response.json());
  return { status: response.status, data: json.data, error: fieldsOf(json.error) };
}

const chat = (model: string, at = gateway) =>
  at.post({ model, messages: [{ role: 'user', content: 'one two' }] });
const costOf = ({ json }: Awaited<ReturnType<typeof chat>>) => Number(fieldsOf(json.usage).cost);

/** Sends a chat except for the end of its body. `end` sends that and returns the answer. */
function beginChat(model: string) {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const messages = [{ role: 'user', content: 'one two' }];
  const body = Buffer.from(JSON.stringify({ model, messages }));
  const headers = { authorization: `Bearer ${gateway.keys.routing}` };
  const path = '/v1/chat/completions';
  const answer = fetch(gateway.url + path, { method: 'POST', headers, body: readable });
  const begun = writer.write(body.subarray(0, 9));
  return {
    async end() {
      await begun;
      await writer.write(body.subarray(9));
      await writer.close();
      return (await answer).json();
    },
  };
}

function recordOf(requestId: string): Promise<RequestRecord> {
  return waitUntil(() => gateway.store.requestLog.findForAnyTenant(requestId));
}

describe('prices', () => {
  test('of a file apply from their start time on, and receipts name it', async () => {
    const answer = await chat('acme/history');
    expect(costOf(answer)).toBe(2 * 1000 + 6 * 10_000);
    const receipt = receiptObject(await recordOf(answer.requestId), 1_000_000);
    expect(receipt).toMatchObject({
      prices: { prompt: '1000', completion: '10000' },
      prices_from: new Date(started).toISOString(),
    });
    const { data } = await send('GET', '/prices');
    const listed = objectsIn(data).filter(({ model }) => model === 'acme/history');
    expect(listed.map(({ state, owner, from }) => [state, owner, from])).toEqual([
      ['past', 'file', null],
      ['in_force', 'file', '2026-01-01T00:00:00.000Z'],
      ['scheduled', 'file', '2100-01-01T00:00:00.000Z'],
    ]);
    const file = expect.stringContaining('tollgate.json');
    expect(listed[0]).toMatchObject({ name: 'acme/history@acme', source: file });
  });

  test('are listed with their source and its age', async () => {
    const noted = {
      pricing: { prompt: '2', completion: '3' },
      price_source: { name: 'our contract', date: '2026-11-01' },
    };
    const path = '/prices/acme/chat@acme@2098-01-01T00:00:00Z';
    const created = await send('PUT', path, noted);
    expect(created.data).toMatchObject({
      price_source: { ...noted.price_source, dated: 'price', age_days: expect.any(Number) },
      upstream_model: 'chat',
    });
    await send('DELETE', path);
  });

  test('that are changed apply to requests that begin later, at one moment in every process', async () => {
    const created = await send('POST', '/prices', {
      model: 'acme/changing',
      provider: 'acme',
      pricing: { prompt: '500', completion: '500' },
    });
    expect([created.status, fieldsOf(created.data).state]).toEqual([201, 'scheduled']);
    const from = Date.parse(String(fieldsOf(created.data).from));
    const begun = beginChat('acme/changing');
    const requests: { id: string; cost: number }[] = [];
    const latest = new Map<InProcessGateway, number>();
    await waitUntil(async () => {
      for (const one of [gateway, other]) {
        const answer = await chat('acme/changing', one);
        requests.push({ id: answer.requestId, cost: costOf(answer) });
        latest.set(one, costOf(answer));
      }
      return [...latest.values()].every((cost) => cost === 4_000) || undefined;
    });
    for (const { id, cost } of requests) {
      const { createdAt, pricedFrom, charges } = await recordOf(id);
      const isNew = createdAt >= from;
      expect([cost, pricedFrom]).toEqual(isNew ? [4_000, from] : [8, undefined]);
      expect(charges.modelCharge).toBe(cost);
    }
    expect(requests.some(({ cost }) => cost === 8)).toBe(true);
    expect(fieldsOf(fieldsOf(await begun.end()).usage).cost).toBe(8);
    const name = String(fieldsOf(created.data).name);
    const late = await send('DELETE', `/prices/${name}`);
    expect([late.status, late.error.message]).toEqual([
      409,
      `The price "${name}" has taken effect. Add another one with a later time.`,
    ]);
  });

  test('of one endpoint leave the other endpoints at the provider alone', async () => {
    const pricing = { prompt: '9', completion: '9' };
    const name = 'acme/two@acme/fast@2097-01-01T00:00:00Z';
    const created = await send('POST', '/prices', {
      ...{ model: 'acme/two', provider: 'acme', upstream_model: 'fast', pricing },
      from: '2097-01-01T00:00:00Z',
    });
    expect(created.data).toMatchObject({ name, upstream_model: 'fast' });
    await send('PUT', '/prices/acme/two@acme@2097-01-01T00:00:00Z', {
      pricing: { ...pricing, prompt: '8' },
    });
    const { data } = await send('GET', '/prices');
    const listed = objectsIn(data).filter(({ model }) => model === 'acme/two');
    expect(listed.map((price) => [price.name, fieldsOf(price.pricing).prompt])).toEqual([
      ['acme/two@acme/chat', '1'],
      ['acme/two@acme@2097-01-01T00:00:00Z', '8'],
      ['acme/two@acme/fast', '2'],
      [name, '9'],
    ]);
    expect(listed[3]).toEqual(expect.objectContaining(fieldsOf(created.data)));
    const wrong = await send('PUT', '/prices/acme/two@acme/slow@2097-01-01T00:00:00Z', { pricing });
    expect([wrong.status, wrong.error.param]).toEqual([400, 'upstream_model']);
  });

  test('that are scheduled can be changed and deleted', async () => {
    const path = '/prices/acme/chat@acme@2099-01-01T00:00:00Z';
    const pricing = { prompt: '2', completion: '3' };
    expect((await send('PUT', path, { pricing })).status).toBe(201);
    const changed = await send('PATCH', path, { pricing: { prompt: '4' } });
    expect(changed.data).toMatchObject({
      state: 'scheduled',
      pricing: { prompt: '4', completion: '3' },
    });
    expect((await send('DELETE', path)).status).toBe(200);
    expect((await send('DELETE', path)).status).toBe(404);
  });

  const future = '2099-01-01T00:00:00Z';
  const valid = {
    model: 'acme/chat',
    provider: 'acme',
    from: future,
    pricing: { prompt: '1', completion: '1' },
  };
  test.each([
    [{ ...valid, model: 'acme/chatt' }, 'model', 'model names "acme/chatt", which is not a model'],
    [{ ...valid, provider: 'b' }, 'provider', 'provider names "b", which is not a provider of'],
    [{ ...valid, from: 'tomorrow' }, 'from', 'from must be a time with its offset, such as'],
    [{ ...valid, from: '2099-13-01T00:00:00Z' }, 'name', 'The name of a price must have the form'],
    [{ ...valid, from: '2026-01-01T00:00:00Z' }, 'from', 'from must be at least 2 seconds ahead'],
    [{ ...valid, pricing: { prompt: '1' } }, 'pricing', 'pricing needs completion'],
    [{ ...valid, pricing: { ...valid.pricing, prompt: 1 } }, 'pricing.prompt', 'in quotes'],
    [{ ...valid, until: future }, 'until', 'until is not a known field'],
  ])('with %j are rejected', async (body, param, message) => {
    const { status, error } = await send('POST', '/prices', body);
    expect([status, error.param]).toEqual([400, param]);
    expect(error.message).toContain(message);
  });
});

describe('plans', () => {
  test('charge their tenants a factor and a surcharge, and show list prices to operators only', async () => {
    const document = { factor_basis_points: 12_500, surcharge: { request: '0.00001' } };
    expect((await send('PUT', '/plans/pro', document)).status).toBe(201);
    expect((await send('PATCH', '/tenants/default', { plan: 'pro' })).status).toBe(200);
    const answer = await chat('acme/chat');
    // 8 tokens at $1.25 per million are 10 credits, and the request is 10 more.
    expect(costOf(answer)).toBe(20);
    const record = await recordOf(answer.requestId);
    const receipt = receiptObject(record, 1_000_000);
    expect(receipt).toMatchObject({
      cost: 20,
      prices: { prompt: '1.25', completion: '1.25', request: '0.00001' },
      not_charged: 0,
    });
    expect(JSON.stringify(receipt)).not.toContain('pro"');
    expect(marginObject(record, 1_000_000)).toEqual({
      plan: 'pro',
      factor_basis_points: 12_500,
      surcharge: { request: '0.00001' },
      list_prices: { prompt: '1', completion: '1' },
      list: '8',
      margin: '12',
      charge: '20',
    });
    const models = await fetch(`${gateway.url}/v1/models/acme/chat`, {
      headers: { authorization: `Bearer ${gateway.keys.routing}` },
    });
    const { pricing } = fieldsOf(await models.json());
    expect(pricing).toMatchObject({ prompt: '0.00000125', request: '0.00001' });

    const discount = { factor_basis_points: 5_000, surcharge: null };
    expect((await send('PATCH', '/plans/pro', discount)).status).toBe(200);
    const cheaper = await chat('acme/chat');
    expect(costOf(cheaper)).toBe(4);
    const margin = marginObject(await recordOf(cheaper.requestId), 1_000_000);
    expect(margin).toMatchObject({ list: '8', margin: '-4', charge: '4' });
    await send('PUT', '/plans/pro', document);

    const assigned = await send('DELETE', '/plans/pro');
    expect([assigned.status, assigned.error.message]).toEqual([
      409,
      'The plan "pro" is the plan of 1 tenant. Give them another plan first.',
    ]);
    await send('PATCH', '/tenants/default', { plan: null });
    expect(costOf(await chat('acme/chat'))).toBe(8);
    expect((await send('PUT', '/settings/billing.default_plan', { value: 'pro' })).status).toBe(
      201,
    );
    expect(costOf(await chat('acme/chat'))).toBe(20);
    const used = await send('DELETE', '/plans/pro');
    expect([used.status, used.error.message]).toEqual([
      409,
      'The plan "pro" is used by setting "billing.default_plan". Change or delete what uses it first.',
    ]);
    await send('DELETE', '/settings/billing.default_plan');
    expect((await send('DELETE', '/plans/pro')).status).toBe(200);
  });

  test('are shown with list prices on the receipts and explanations of operators', async () => {
    expect((await send('PUT', '/plans/half', { factor_basis_points: 5_000 })).status).toBe(201);
    await send('PATCH', '/tenants/default', { plan: 'half' });
    const answer = await chat('acme/chat');
    const shown = await send('GET', `/requests/${answer.requestId}`);
    expect([shown.status, shown.data]).toMatchObject([
      200,
      {
        ...{ cost: 4, prices: { prompt: '0.5' }, tenant: { id: 'default' } },
        margin: {
          plan: 'half',
          list_prices: { prompt: '1' },
          list: '8',
          margin: '-4',
          charge: '4',
        },
        attempts: [{ provider: 'acme', status: 200 }],
      },
    ]);
    const message = { role: 'user', content: 'one two' };
    const request = { model: 'acme/chat', messages: [message] };
    const explained = await send('POST', '/route/explain?tenant=default', request);
    expect(objectsIn(fieldsOf(explained.data).plan)).toMatchObject([
      { pricing: { prompt: '0.5' }, margin: { plan: 'half', list_prices: { prompt: '1' } } },
    ]);
    const own = await fetch(`${gateway.url}/v1/route/explain`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.keys.routing}` },
      body: JSON.stringify(request),
    });
    expect([own.status, JSON.stringify(await own.json())]).toEqual([
      200,
      expect.not.stringContaining('list_prices'),
    ]);
    await send('PATCH', '/tenants/default', { plan: null });
    expect((await send('DELETE', '/plans/half')).status).toBe(200);
  });

  test.each([
    ['PUT', '/plans/a', { factor: 2 }, 'factor', 'factor is not a known field'],
    ['PUT', '/plans/a', { factor_basis_points: -1 }, 'factor_basis_points', 'factor_basis_points'],
    ['PUT', '/plans/a', { surcharge: { request: 1 } }, 'surcharge.request', 'in quotes'],
    ['PUT', '/plans/a b', {}, 'name', 'The name of a plan must be'],
    ['PATCH', '/tenants/default', { plan: 'gold' }, 'plan', 'There is no plan "gold"'],
    ['PUT', '/settings/billing.default_plan', { value: 'gold' }, 'value', 'names "gold", which is'],
  ])('%s %s with %j is rejected', async (method, path, body, param, message) => {
    const { status, error } = await send(method, path, body);
    expect([status, error.param]).toEqual([400, param]);
    expect(error.message).toContain(message);
  });
});
