/** Exactly one request probes a half-open circuit, and it must be sent to the provider. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test';
import { AdvancedClock } from '../support/advanced-clock.ts';
import { chatAnswer, startFakeUpstream, status, status500 } from '../support/fake-upstream.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { twoProviders } from '../support/two-providers.ts';

const upstream = startFakeUpstream();
const clock = new AdvancedClock();
let gateway: InProcessGateway;

beforeAll(async () => {
  gateway = await InProcessGateway.start(twoProviders(upstream));
});
afterAll(async () => {
  clock[Symbol.dispose]();
  await gateway.stop();
  await upstream.stop();
});

/** How long a circuit stays open after it opens for the first time. */
const openMsFirst = 5_000;

const body = { model: 'test/two', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 50 };

/** Returns the circuit state of the provider `first`: the worst state of its models. */
async function circuit(): Promise<string | undefined> {
  const { text } = await gateway.get('/admin/v1/providers', { key: gateway.keys.admin });
  return /"name":"first",.*?"circuit":"(\w+)"/.exec(text)?.[1];
}

beforeEach(async () => {
  upstream.script('broken', status500());
  upstream.script('works', chatAnswer('Instead.'));
  for (let n = 0; n < 5; n++) expect((await gateway.post(body)).status).toBe(200);
  expect(await circuit()).toBe('open');
  clock.advance(openMsFirst);
  expect(await circuit()).toBe('half_open');
});

afterEach(async () => {
  expect(await circuit()).toBe('half_open');
  upstream.script('broken', chatAnswer('Again.'));
  expect((await gateway.post(body)).text).toContain('Again.');
  expect(await circuit()).toBe('closed');
});

test('does not count a request rejected for lack of credits as a circuit probe', async () => {
  const key = await gateway.makeKey({ limit: 1 });
  expect((await gateway.post(body, { key })).status).toBe(402);
});

test('does not count a request that the provider rejects with 400 as a circuit probe', async () => {
  upstream.script('broken', status(400));
  expect((await gateway.post(body)).status).toBe(400);
});

test('probes with 1 of many concurrent requests, even if their model has no other offer', async () => {
  const callsToBroken = () => upstream.requests.filter((entry) => entry.model === 'broken').length;
  const before = callsToBroken();
  const withoutFallbacks = { ...body, provider: { allow_fallbacks: false } };
  const models = ['test/two', 'test/chat'];
  const sorted = { ...body, models, route: 'sort', provider: { only: ['first'] } };
  const many = Array.from({ length: 20 }, () => [withoutFallbacks, sorted]).flat();
  const answers = await Promise.all(many.map((request) => gateway.post(request)));
  expect(callsToBroken() - before).toBe(1);
  expect(answers.filter((answer) => answer.status === 200).length).toBeGreaterThanOrEqual(39);
  // After a failed probe, the circuit stays open for twice as long.
  clock.advance(openMsFirst);
  expect(await circuit()).toBe('open');
  clock.advance(openMsFirst);
});
