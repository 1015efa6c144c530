/** Each request uses one version of the configuration, however often it changes meanwhile. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { fieldsOf } from '../../src/core/json.ts';
import { chatAnswer, startFakeUpstream, status500, words } from '../support/fake-upstream.ts';
import { InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
const versions = 30;
const requestsPerVersion = 5;
const requests = versions * requestsPerVersion;

/** All prices and the names of the models at the providers have the number of the version. */
const model = (version: number) => ({
  ...{ name: 'Changing', input_modalities: ['text'], output_modalities: ['text'] },
  endpoints: ['fails', 'answers'].map((name, priority) => ({
    ...{ provider: name, model: `${name}-${version}`, priority },
    pricing: { prompt: `${version}`, completion: `${1000 * version}` },
  })),
});

beforeAll(async () => {
  const provider = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: null };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 1_000_000 },
    cache: { mode: 'off' },
    providers: { fails: provider, answers: provider },
    models: [],
  });
  for (let version = 1; version <= versions; version++) {
    upstream.script(`fails-${version}`, status500());
    upstream.script(`answers-${version}`, chatAnswer(words(6)));
  }
  await change('PUT', 1);
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop();
});

async function change(method: string, version: number): Promise<void> {
  const { endpoints, ...rest } = model(version);
  const response = await fetch(`${gateway.url}/admin/v1/models/acme/changing`, {
    method,
    headers: { authorization: `Bearer ${gateway.keys.admin}` },
    body: JSON.stringify(method === 'PUT' ? { ...rest, endpoints } : { endpoints }),
  });
  expect(response.ok).toBe(true);
}

test('no request is planned, sent, or charged by two configurations', async () => {
  const changes: Promise<void>[] = [];
  const used = new Set<number>();
  const send = async (index: number) => {
    const content = `request ${index}`;
    const body = { model: 'acme/changing', messages: [{ role: 'user', content }] };
    const { headers } = await gateway.post({ ...body, stream: index % 2 === 0 });
    const record = await gateway.record(headers.get('x-request-id') ?? '');
    const sent = upstream.requests.filter((one) =>
      JSON.stringify(one.json).includes(`"${content}"`),
    );
    const names = sent.map(({ json }) => String(fieldsOf(json).model).split('-'));
    const [version = 0] = [...new Set(names.map(([, number]) => Number(number)))];
    expect(names.map(([, number]) => Number(number))).toEqual(names.map(() => version));
    expect(names.at(-1)?.[0]).toBe('answers');
    expect(record.prices).toMatchObject({ prompt: `${version}`, completion: `${1000 * version}` });
    expect(record.charges.modelCharge).toBe(2 * version + 6 * 1000 * version);
    used.add(version);
  };
  let next = 0;
  const client = async () => {
    while (next < requests) {
      const index = next++;
      // Without waiting, so that the change happens at any point of the running requests.
      if (index % requestsPerVersion === 0) changes.push(change('PATCH', changes.length + 1));
      await send(index);
    }
  };
  await Promise.all(Array.from({ length: 8 }, client));
  await Promise.all(changes);
  expect(used.size).toBeGreaterThan(2);
}, 120_000);
