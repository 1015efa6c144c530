/** Two gateways that process the jobs of one queue. */
import { afterAll, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { gated, speech, startFakeUpstream } from '../support/fake-upstream.ts';
import { type Gateway, newFolder, startGateway } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';

/** Each text has 15 characters and costs 15 credits. */
const texts = Array.from({ length: 36 }, (_, i) => `Job number ${100 + i}.`);
const lanes = 4;

const voice = { input_modalities: ['text'], output_modalities: ['audio'], features: ['speech'] };
const price = { prompt: '0', completion: '0', pricing: { characters: '1' } };

const isUnfinished = (status: unknown) => status === 'queued' || status === 'running';

const upstream = startFakeUpstream();
afterAll(() => upstream.stop());

test('two processes run each of 36 queued jobs once', async () => {
  const env = {
    DATABASE_URL: await (await startPostgres()).createDatabase(),
    OBJECTS_URL: `file:${newFolder()}`,
    TOLLGATE_SECRET_KEY: 'the same secret key for both processes',
  };
  const config = { limits: { requests_per_minute: 100_000 } };
  const upstreamsOf = (gateway: string) => ({
    fake: {
      url: upstream.url,
      headers: { 'x-gateway': gateway },
      models: { 'test/voice': { ...price, model: voice } },
    },
  });
  await using first = await startGateway({ env, config, upstreams: upstreamsOf('first') });
  const { keys } = first;
  const upstreams = upstreamsOf('second');
  await using second = await startGateway({ env, config, upstreams, keys });
  const before = await first.balance();

  upstream.script('voice', gated('all queued', 0, speech()));
  // Send a few at a time, because too many requests exhaust the connections of a slow database.
  const lane = async (start: number) => {
    const gateway = start % 2 === 0 ? first : second;
    for (let i = start; i < texts.length; i += lanes) {
      const body = { model: 'test/voice', voice: 'alloy', input: texts[i] };
      const answer = await gateway.call('POST', '/v1/jobs', { key: keys.api, body });
      expect(answer).toMatchObject({ status: 202 });
    }
  };
  await Promise.all(Array.from({ length: lanes }, (_, start) => lane(start)));
  // Both processes run as many jobs as one tenant may run. Then both claim their next jobs.
  await upstream.until((calls) => calls.length === 6, 120_000);
  const callers = upstream.requests.map(({ headers }) => headers['x-gateway']).toSorted();
  expect(callers).toEqual(['first', 'first', 'first', 'second', 'second', 'second']);
  upstream.open('all queued');

  const read = async (gateway: Gateway, path: string) => {
    const answer = await gateway.call('GET', path, { key: keys.api });
    // Don't mistake an error response for an empty list.
    expect(answer).toMatchObject({ status: 200 });
    return answer.body;
  };
  // One request for all statuses, because a retried job returns from running to queued.
  const statuses = async () => {
    const { data } = await read(first, '/v1/jobs?limit=100');
    return Array.isArray(data) ? data.map((job) => isObject(job) && job.status) : [];
  };
  let seen = await statuses();
  for (; seen.some(isUnfinished); seen = await statuses()) await Bun.sleep(100);
  expect(seen).toEqual(texts.map(() => 'succeeded'));
  // A job that runs twice is charged only once, so check the calls at the provider.
  const inputs = upstream.requests.map(({ json }) => isObject(json) && json.input);
  expect(inputs.toSorted()).toEqual(texts);
  // Each process books its own requests; reading the log flushes them.
  await read(second, '/v1/customer/logs?limit=1');
  const { pagination } = await read(first, '/v1/customer/logs?limit=1');
  expect(pagination).toMatchObject({ total: texts.length });
  expect(await first.balance()).toBe(before - texts.length * 15);
}, 300_000);
