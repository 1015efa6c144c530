/** Four processes on Postgres use the same configuration, and a kill loses none of it. */
import { afterAll, expect, test } from 'bun:test';
import { fieldsOf } from '../../src/core/json.ts';
import { startFakeUpstream } from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';
import { waitUntil } from '../support/wait-until.ts';

const testMs = 240_000;
const upstream = startFakeUpstream();
afterAll(() => upstream.stop());

const model = (prompt: string) => ({
  name: 'Scripted',
  input_modalities: ['text'],
  output_modalities: ['text'],
  endpoints: [{ provider: 'scripted', model: 'chat', pricing: { prompt, completion: '1' } }],
});
const chat = { model: 'acme/scripted', messages: [{ role: 'user', content: 'one two' }] };

async function costAt(gateway: Gateway): Promise<unknown> {
  const { status, body } = await gateway.chat(chat);
  return status === 200 ? fieldsOf(body.usage).cost : undefined;
}

test(
  'a provider, a model, and a price made over HTTP serve on all of four processes, and survive a kill',
  async () => {
    const env = {
      DATABASE_URL: await (await startPostgres()).createDatabase(),
      TOLLGATE_SECRET_KEY: 'the same on all of the four machines',
    };
    const first = await startGateway({ env });
    const others = await Promise.all([1, 2, 3].map(() => startGateway({ env, keys: first.keys })));
    const apiKey = 'sk-scripted-01';
    const provider = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: apiKey };
    const created = await first.admin('PUT', '/admin/v1/providers/scripted', provider);
    expect([created.status, created.text]).toEqual([201, expect.not.stringContaining('sk-scr')]);
    const put = await first.admin('PUT', '/admin/v1/models/acme/scripted', model('1'));
    expect(put.status).toBe(201);
    expect(await costAt(first)).toBe(3);
    await Promise.all(
      others.map((gateway) => waitUntil(async () => (await costAt(gateway)) === 3 || undefined)),
    );
    // The process is killed when it has committed the change, before others have noticed it.
    const [second, third, fourth] = others;
    const change = { endpoints: model('100').endpoints };
    const changed = await second?.admin('PATCH', '/admin/v1/models/acme/scripted', change);
    expect(changed?.status).toBe(200);
    await Promise.all([first.kill9(), second?.kill9()]);
    for (const gateway of [third, fourth]) {
      if (gateway) await waitUntil(async () => (await costAt(gateway)) === 201 || undefined);
    }
    await using restarted = await startGateway({ env, keys: first.keys });
    expect(await costAt(restarted)).toBe(201);
    const key = upstream.requests.at(-1)?.headers.authorization;
    expect(key).toBe(`Bearer ${apiKey}`);
    await Promise.all([third?.stop(), fourth?.stop()]);
  },
  testMs,
);
