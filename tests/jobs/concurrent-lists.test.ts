import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test';
import { JobServer } from '../support/job-server.ts';

let server: JobServer;

beforeAll(async () => {
  server = await JobServer.start();
}, 120_000);

afterAll(() => server.stop());

test('a tenant can have 2 job list requests in flight, and other tenants are not delayed', async () => {
  const { service } = server.harness;
  const list = service.list.bind(service);
  const othersServed = Promise.withResolvers<void>();
  const tenantId = 'default';
  let [running, most] = [0, 0];
  const spy = spyOn(service, 'list').mockImplementation(async (...args) => {
    if (args[0] !== tenantId) return list(...args);
    running += 1;
    most = Math.max(most, running);
    await othersServed.promise;
    running -= 1;
    return list(...args);
  });
  const own = Array.from({ length: 8 }, () => server.send('GET', '/v1/jobs'));
  expect((await server.send('GET', '/v1/jobs', {}, server.keys.otherTenant)).status).toBe(200);
  othersServed.resolve();
  const answers = await Promise.all(own);
  spy.mockRestore();
  expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(2);
});
