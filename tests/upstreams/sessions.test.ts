/** Weights split requests between endpoints and keys, and sessions stay where they are. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { chatModel, InProcessGateway, type Reply } from '../support/in-process.ts';
import { keyNamed, startKeyedProvider } from '../support/keyed-provider.ts';
import { pricing } from '../support/two-providers.ts';

const [north, south] = [startKeyedProvider(), startKeyedProvider()];
const id = 'acme/chat';
let gateway: InProcessGateway;

const put = (path: string, document: object) =>
  fetch(`${gateway.url}/admin/v1/${path}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${gateway.keys.admin}`, 'content-type': 'application/json' },
    body: JSON.stringify(document),
  });

const endpoint = (provider: string, weight?: number) => ({
  ...{ provider, model: 'chat', pricing },
  ...(weight !== undefined && { weight }),
});
const endpoints = [endpoint('north', 70), endpoint('south', 30), endpoint('shadow', 0)];

beforeAll(async () => {
  gateway = await InProcessGateway.start({ providers: {}, models: [] });
  for (const [name, { url }, keys] of [
    ['north', north, ['n1', 'n2']],
    ['south', south, ['s1', 's2']],
    ['shadow', south, ['shadow']],
  ] as const) {
    const api_keys = keys.map((key) => keyNamed(key));
    const saved = await put(`providers/${name}`, { dialect: 'openai', base_url: url, api_keys });
    expect(saved.status).toBe(201);
  }
  expect((await put(`models/${id}`, chatModel(id, endpoints))).status).toBe(201);
});
afterAll(async () => {
  await gateway.stop();
  north.stop();
  south.stop();
});
beforeEach(() => {
  north.reset();
  south.reset();
});

const messages = [{ role: 'user', content: 'Hello!' }];
const chat = (more: object = {}, headers: Record<string, string> = {}) =>
  gateway.post({ model: id, messages, ...more }, { headers });

/** Returns the keys that providers accepted since the last call. */
function takeUsed(): readonly string[] {
  const used = [...north.used, ...south.used];
  for (const { used: list } of [north, south]) list.length = 0;
  return used;
}

/** Sends three requests of a session, and returns the keys that they used. */
async function keysOf(session: string): Promise<readonly string[]> {
  const bodies: [object, Record<string, string>?][] = [
    [{}, { 'x-session-id': session }],
    [{ user: session }],
    [{ prompt_cache_key: session, user: 'somebody else' }, { 'x-session-id': 'other' }],
  ];
  for (const [body, headers] of bodies) expect((await chat(body, headers)).status).toBe(200);
  return takeUsed();
}

test('sessions stay at one endpoint and key until it fails, and return', async () => {
  const sessions = Array.from({ length: 12 }, (_, i) => `session ${i}`);
  const home = new Map<string, string>();
  for (const session of sessions) {
    const [first = '', ...others] = await keysOf(session);
    expect(others).toEqual([first, first]);
    home.set(session, first);
  }
  expect(new Set(home.values()).size).toBeGreaterThan(2);
  expect([...home.values()]).not.toContain('shadow');
  const session = sessions.find((name) => home.get(name)?.startsWith('n')) ?? '';
  const own = home.get(session) ?? '';
  const sibling = own === 'n1' ? 'n2' : 'n1';

  // A limit of its key moves the session to the other key of the same endpoint.
  north.rejections.set(own, { status: 429, message: 'Slow down.', retryAfter: '0' });
  expect(await keysOf(session)).toEqual([own, sibling, own, sibling, own, sibling]);

  // A failure of the endpoint moves it to one key of the next endpoint.
  for (const key of ['n1', 'n2']) north.rejections.set(key, { status: 500, message: 'Down.' });
  const moved = (await keysOf(session)).filter((key) => key.startsWith('s'));
  expect(moved).toHaveLength(3);
  expect(new Set(moved).size).toBe(1);
  north.reset();
  expect(await keysOf(session)).toEqual([own, own, own]);
});

test('with `stickiness: prompt`, requests with the same first messages stay together', async () => {
  const model = 'acme/prompt';
  const both = endpoints.slice(0, 2);
  const saved = await put(`models/${model}`, chatModel(model, both, { stickiness: 'prompt' }));
  expect(saved.status).toBe(201);
  const homes = new Set<string>();
  for (let i = 0; i < 8; i++) {
    const turns: object[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: `Question ${i}` },
    ];
    for (let turn = 0; turn < 3; turn++) {
      await chat({ model, messages: turns });
      turns.push({ role: 'assistant', content: 'Yes.' }, { role: 'user', content: `And ${turn}?` });
    }
    const [first = '', ...others] = takeUsed();
    expect(others).toEqual([first, first]);
    homes.add(first);
  }
  expect(homes.size).toBeGreaterThan(2);
});

test('sessions stay at one model of an alias with weights', async () => {
  const models = [id, 'acme/prompt'].map((model) => ({ model, weight: 50 }));
  expect((await put('aliases/team', { models })).status).toBe(201);
  const chosen = new Set<unknown>();
  for (let i = 0; i < 8; i++) {
    const session = `session ${i}`;
    const replies = [
      await chat({ model: 'team' }, { 'x-session-id': session, 'idempotency-key': `${i}` }),
      await chat({ model: 'team' }, { 'x-session-id': session }),
      await chat({ model: 'team', prompt_cache_key: session }),
      await chat({ model: 'team', user: session }),
    ];
    const [first, ...others] = replies.map(({ json }) => json.model);
    expect(others).toEqual([first, first, first]);
    chosen.add(first);
  }
  expect(chosen.size).toBe(2);
});

test('another tenant has sessions of its own, whatever it calls them', async () => {
  const key = await gateway.makeTenant({ name: 'Other' });
  const firstKeys = async (options: { key?: string }) => {
    for (let i = 0; i < 12; i++) {
      const headers = { 'x-session-id': `session ${i}` };
      await gateway.post({ model: id, messages }, { ...options, headers });
    }
    return { north: [...north.used], south: [...south.used] };
  };
  const mine = await firstKeys({});
  takeUsed();
  expect(await firstKeys({ key })).not.toEqual(mine);
});

test('explanations show the weights, and why an endpoint gets no requests', async () => {
  const explain = async (more: object, headers: Record<string, string> = {}) =>
    (await gateway.post({ model: id, messages, ...more }, { path: '/v1/route/explain', headers }))
      .json.data as { plan: { provider: string }[] };
  const preview = await explain({});
  expect(preview).toMatchObject({
    plan: [
      { provider: 'north', weight: 70 },
      { provider: 'south', weight: 30 },
    ],
    excluded: [
      {
        provider: 'shadow',
        reason:
          'Requests for this model reach shadow only if they name it in provider.only or ' +
          'provider.order.',
      },
    ],
  });
  for (const name of ['a', 'b', 'c', 'd', 'e']) {
    const session = { 'x-session-id': name };
    const [first] = (await explain({}, session)).plan;
    await chat({}, session);
    expect(first?.provider[0]).toBe(takeUsed()[0]?.[0]);
  }
  expect((await explain({ provider: { only: ['shadow'] } })).plan).toMatchObject([
    { provider: 'shadow', weight: 0 },
  ]);
  await chat({ provider: { only: ['shadow'] } });
  expect(takeUsed()).toEqual(['shadow']);
});

test('weights that say nothing about the shares are rejected with their field', async () => {
  const rejectionOf = async (...list: object[]) => {
    const response = await put(`models/${id}`, chatModel(id, list));
    const { error } = (await response.json()) as Pick<Reply, 'error'>;
    return [response.status, error.param, error.message];
  };
  const missing =
    'is required, because another endpoint of the same priority has a weight above 0.';
  expect(await rejectionOf(endpoint('north', 70), endpoint('south'))).toEqual([
    ...[400, 'endpoints[1].weight', `endpoints[1].weight ${missing}`],
  ]);
  expect(await rejectionOf(endpoint('north', 0), endpoint('south', 0))).toEqual([
    ...[400, 'endpoints', 'endpoints needs a weight above 0 for at least one endpoint.'],
  ]);
  for (const weight of [-1, 0.5, 1001]) {
    const [status, field] = await rejectionOf(endpoint('north', weight));
    expect([status, field]).toEqual([400, 'endpoints[0].weight']);
  }
  // The model is as before.
  expect((await chat()).status).toBe(200);
});
