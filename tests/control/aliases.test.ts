/** Aliases that are created over the API, and configuration that is restored from the audit log. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { fieldsOf, objectsIn } from '../../src/core/json.ts';
import { startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
afterAll(() => upstream.stop());
beforeEach(async () => {
  gateway = await InProcessGateway.start({
    providers: {
      north: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-north' },
    },
    models: ['a', 'b'].map((name) =>
      chatModel(`acme/${name}`, [{ provider: 'north', model: name }]),
    ),
    aliases: { locked: { models: ['acme/a'] } },
  });
});
afterEach(() => gateway.stop());

async function send(method: string, path: string, body?: object) {
  const response = await fetch(`${gateway.url}/admin/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${gateway.keys.admin}` },
    ...(body && { body: JSON.stringify(body) }),
  });
  const json = fieldsOf(await response.json());
  return { status: response.status, json, error: fieldsOf(json.error) };
}

/** Returns the model that answers a request to an alias. */
async function answeredBy(model: string): Promise<unknown> {
  const messages = [{ role: 'user', content: 'Hello!' }];
  return (await gateway.post({ model, messages })).json.model;
}

test('an alias that is put over the API applies to the next request, until it is deleted', async () => {
  expect((await send('PUT', '/aliases/team/claude', { models: ['acme/b'] })).status).toBe(201);
  expect(await answeredBy('team/claude')).toBe('acme/b');
  expect((await send('PUT', '/aliases/team/claude', { models: ['acme/a'] })).status).toBe(200);
  expect(await answeredBy('team/claude')).toBe('acme/a');
  expect((await send('DELETE', '/aliases/team/claude')).status).toBe(200);
  expect(await answeredBy('team/claude')).toBeUndefined();
});

test.each<[string, object, number, string | null, string]>([
  [
    '/aliases/fast',
    { models: ['acme/missing'] },
    ...([400, 'models[0]'] as const),
    'models[0] names "acme/missing", which is not the ID of a model.',
  ],
  [
    '/aliases/fast',
    { models: [{ model: 'acme/a', weight: 0 }] },
    ...([400, 'models'] as const),
    'models must have a model whose weight is above 0.',
  ],
  [
    '/aliases/two%20words',
    { models: ['acme/a'] },
    ...([400, 'name'] as const),
    'The name of an alias must be 1 to 199 characters without spaces and "*".',
  ],
  [
    '/aliases/locked',
    { models: ['acme/b'] },
    ...([409, null] as const),
    expect.stringContaining('The alias "locked" is set in ') as unknown as string,
  ],
])('PUT %s with %j is rejected', async (path, body, status, param, message) => {
  const reply = await send('PUT', path, body);
  expect(reply).toMatchObject({ status, error: { param, message } });
});

describe('POST /admin/v1/audit/:id/restore', () => {
  const entriesOf = async (target: string) =>
    objectsIn((await send('GET', `/audit?target=${target}`)).json.data);

  const restore = async (target: string, index: number, body?: object) => {
    const entry = (await entriesOf(target))[index];
    return send('POST', `/audit/${String(entry?.id)}/restore`, body);
  };

  test('undoes a change, and redoes it', async () => {
    await send('PUT', '/aliases/fast', { models: ['acme/a'] });
    await send('PUT', '/aliases/fast', { models: ['acme/b'] });
    expect((await restore('fast', 0)).status).toBe(200);
    expect(await answeredBy('fast')).toBe('acme/a');
    expect((await restore('fast', 1, { state: 'after' })).status).toBe(200);
    expect(await answeredBy('fast')).toBe('acme/b');
    expect((await entriesOf('fast')).length).toBe(4);
  });

  test('deletes what did not exist before the change', async () => {
    await send('PUT', '/aliases/fast', { models: ['acme/a'] });
    expect((await restore('fast', 0)).json).toEqual({ deleted: true });
    expect(await answeredBy('fast')).toBeUndefined();
  });

  test.each([
    ['/audit/999999/restore', {}, 404, 'The audit log has no entry 999999.'],
    ['/audit/x/restore', {}, 404, 'The audit log has no entry x.'],
    [
      '/audit/1/restore',
      { state: 'now' },
      400,
      'state must be one of "before", "after", not "now".',
    ],
  ])('rejects %s with %j', async (path, body, status, message) => {
    expect(await send('POST', path, body)).toMatchObject({ status, error: { message } });
  });
});
