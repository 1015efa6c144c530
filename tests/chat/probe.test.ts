/** An offer that recovers is found well by a request that is sent there, whoever else plans to. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test';
import { chatAnswer, startFakeUpstream, status, status500 } from '../support/fake-upstream.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { twoProviders } from '../support/two-providers.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  gateway = await InProcessGateway.start(twoProviders(upstream));
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop();
});

const body = { model: 'test/two', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 50 };

/** Of the first provider: the worst of its models. */
async function circuit(): Promise<string | undefined> {
  const { text } = await gateway.get('/admin/v1/providers', { key: gateway.keys.admin });
  return /"name":"first",.*?"circuit":"(\w+)"/.exec(text)?.[1];
}

beforeEach(async () => {
  upstream.script('broken', status500());
  upstream.script('works', chatAnswer('Instead.'));
  for (let n = 0; n < 5; n++) expect((await gateway.post(body)).status).toBe(200);
  expect(await circuit()).not.toBe('closed');
  while ((await circuit()) !== 'half_open') await Bun.sleep(50);
}, 120_000);

afterEach(async () => {
  expect(await circuit()).toBe('half_open');
  upstream.script('broken', chatAnswer('Again.'));
  expect((await gateway.post(body)).text).toContain('Again.');
  expect(await circuit()).toBe('closed');
});

test('a request that is refused for want of credits is no probe', async () => {
  const key = await gateway.makeKey({ limit: 1 });
  expect((await gateway.post(body, { key })).status).toBe(402);
});

test('nor is one that the provider refuses for its own fault', async () => {
  upstream.script('broken', status(400));
  expect((await gateway.post(body)).status).toBe(400);
});

test('of many at once one is it, also of those with nowhere to go in their model', async () => {
  const toBroken = () => upstream.requests.filter((entry) => entry.model === 'broken').length;
  const before = toBroken();
  const alone = { ...body, provider: { allow_fallbacks: false } };
  const models = ['test/two', 'test/chat'];
  const sorted = { ...body, models, route: 'sort', provider: { only: ['first'] } };
  const many = Array.from({ length: 20 }, () => [alone, sorted]).flat();
  const answers = await Promise.all(many.map((one) => gateway.post(one)));
  expect(toBroken() - before).toBe(1);
  expect(answers.filter((answer) => answer.status === 200).length).toBeGreaterThanOrEqual(39);
  while ((await circuit()) !== 'half_open') await Bun.sleep(50);
}, 120_000);
