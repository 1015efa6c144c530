/** Two hundred jobs in one queue and two gateways at it: each is done by one of them, once. */
import { expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { newFolder, startGateway } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';

const jobs = 200;
const lanes = 8;

test('two hundred queued jobs are done once each by two processes', async () => {
  const env = {
    DATABASE_URL: await (await startPostgres()).createDatabase(),
    OBJECTS_URL: `file:${newFolder()}`,
    TOLLGATE_SECRET_KEY: 'the same secret key for both of them',
  };
  const config = { limits: { requests_per_minute: 100_000 } };
  await using first = await startGateway({ env, config });
  await using second = await startGateway({ env, config, keys: first.keys });
  const gateways = [first, second];
  const before = await first.balance();
  const call = (url: string, path: string, body?: object) =>
    fetch(url + path, {
      method: body ? 'POST' : 'GET',
      headers: {
        authorization: `Bearer ${first.keys.api}`,
        'content-type': 'application/json',
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
  // A few at a time: in a crowd, whoever gets no connection to a slow database is refused.
  const lane = async (start: number) => {
    const { url } = gateways[start % 2] ?? first;
    for (let i = start; i < jobs; i += lanes) {
      // «Job number 100.» to «Job number 299.» are 15 characters each: 15 credits.
      const body = { model: 'demo/speech', voice: 'alloy', input: `Job number ${100 + i}.` };
      expect((await call(url, '/v1/jobs', body)).status).toBe(202);
    }
  };
  await Promise.all(Array.from({ length: lanes }, (_, start) => lane(start)));
  const waiting = async (status: string) => {
    const answer: unknown = await (
      await call(first.url, `/v1/jobs?limit=1&status=${status}`)
    ).json();
    return isObject(answer) && Array.isArray(answer.data) && answer.data.length > 0;
  };
  while ((await waiting('queued')) || (await waiting('running'))) await Bun.sleep(100);
  expect(await waiting('failed')).toBe(false);
  // Each process books its own; asking it makes it hurry.
  await call(second.url, '/v1/customer/logs?limit=1');
  const logs: unknown = await (await call(first.url, '/v1/customer/logs?limit=1')).json();
  expect(isObject(logs) && isObject(logs.pagination) && logs.pagination.total).toBe(jobs);
  expect(await first.balance()).toBe(before - jobs * 15);
}, 300_000);
