import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test';
import { JobServer } from '../support/job-server.ts';

let server: JobServer;

beforeAll(async () => {
  server = await JobServer.start();
}, 120_000);

afterAll(() => server.stop());

test('two lists of a tenant’s jobs are made at once; another tenant does not wait', async () => {
  const { desk } = server.bench;
  const list = desk.list.bind(desk);
  const othersServed = Promise.withResolvers<void>();
  const tenantId = 'default';
  let [running, most] = [0, 0];
  const spy = spyOn(desk, 'list').mockImplementation(async (...asked) => {
    if (asked[0] !== tenantId) return list(...asked);
    running += 1;
    most = Math.max(most, running);
    await othersServed.promise;
    running -= 1;
    return list(...asked);
  });
  const own = Array.from({ length: 8 }, () => server.send('GET', '/v1/jobs'));
  expect((await server.send('GET', '/v1/jobs', {}, server.keys.stranger)).status).toBe(200);
  othersServed.resolve();
  const answers = await Promise.all(own);
  spy.mockRestore();
  expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(2);
});
