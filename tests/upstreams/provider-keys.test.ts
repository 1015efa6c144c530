/** Requests are distributed over the keys of one provider, and rejected keys are shown. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { newFolder, run } from '../support/gateway.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { keyNamed, startKeyedProvider } from '../support/keyed-provider.ts';
import { scrapeFresh } from '../support/prometheus.ts';
import { pricing } from '../support/two-providers.ts';

const [vendor, counter] = [startKeyedProvider(), startKeyedProvider()];
const body = { model: 'test/chat', messages: [{ role: 'user', content: 'Hello!' }] };
let gateway: InProcessGateway;

beforeAll(async () => {
  gateway = await InProcessGateway.start({
    providers: {
      vendor: {
        dialect: 'openai',
        base_url: vendor.url,
        api_keys: [
          ...['limited', 'expired', 'unpaid', 'forbidden', 'good'].map((name) => keyNamed(name)),
          keyNamed('spare', { disabled: true }),
        ],
      },
      counter: {
        dialect: 'anthropic',
        base_url: counter.url,
        api_keys: [keyNamed('one'), keyNamed('two')],
      },
    },
    models: [
      chatModel('test/chat', [{ provider: 'vendor', model: 'chat', pricing }]),
      chatModel('test/counted', [{ provider: 'counter', model: 'chat', pricing }]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  vendor.stop();
  counter.stop();
});

test('no request fails if one key is rate limited and others are rejected', async () => {
  const rejectedKey = 'Incorrect API key provided: sk-expired-0123456789.';
  vendor.rejections.set('limited', { status: 429, message: 'Slow down.', retryAfter: '1000' });
  vendor.rejections.set('expired', { status: 401, message: rejectedKey });
  vendor.rejections.set('unpaid', { status: 402, message: 'Payment required.' });
  vendor.rejections.set('forbidden', { status: 403, message: 'No permission.' });

  // Without a session, the first request tries the keys in turn until one works.
  const first = await gateway.post(body);
  expect(first.status).toBe(200);
  const record = await gateway.record(first.requestId);
  expect(record.attempts).toMatchObject([
    { provider: 'vendor', key: 'limited', outcome: 'rate_limited', status: 429 },
    { provider: 'vendor', key: 'expired', outcome: 'credential', status: 401 },
    { provider: 'vendor', key: 'unpaid', outcome: 'quota', status: 402 },
    { provider: 'vendor', key: 'forbidden', outcome: 'credential', status: 403 },
    { provider: 'vendor', key: 'good', outcome: 'answered', status: 200 },
  ]);
  const receipt = await gateway.get(`/v1/customer/logs/${first.requestId}`);
  expect([receipt.status, receipt.text.includes('"key"')]).toEqual([200, false]);

  // Streams and sessions, many at the same time.
  const statuses = await Promise.all(
    Array.from({ length: 40 }, async (_, i) => {
      const request = { ...body, ...(i % 3 === 0 && { user: `user ${i}` }) };
      const { status } = i % 2 === 0 ? await gateway.post(request) : await gateway.stream(request);
      return status;
    }),
  );
  expect(new Set(statuses)).toEqual(new Set([200]));
  const names = ['limited', 'expired', 'unpaid', 'forbidden', 'good', 'spare'];
  const counts = names.map((name) => vendor.used.filter((used) => used === name).length);
  expect(counts).toEqual([1, 1, 1, 1, 41, 0]);
});

test('the states of keys are shown, without the keys', async () => {
  const { data } = (await gateway.get('/admin/v1/providers', { key: gateway.keys.admin })).json;
  const none = { status: null, message: null };
  const setAside = { state: 'set_aside', weight: 1, running_requests: 0 };
  expect(data).toMatchObject([
    { name: 'counter' },
    {
      name: 'vendor',
      circuit: 'closed',
      keys: [
        { name: 'limited', state: 'waiting', ...none },
        {
          ...{ name: 'expired', ...setAside, status: 401 },
          message: 'Incorrect API key provided: [key].',
        },
        { name: 'unpaid', ...setAside, status: 402, message: 'Payment required.' },
        { name: 'forbidden', ...setAside, status: 403, message: 'No permission.' },
        { name: 'good', state: 'available', running_requests: 0, retry_after_seconds: null },
        { name: 'spare', state: 'disabled' },
      ],
    },
  ]);
  const env = { TOLLGATE_ADMIN_TOKEN: gateway.keys.admin };
  const options = { dataDir: newFolder(), env };
  const command = ['providers', 'keys', 'vendor', '--url', gateway.url];
  const { exitCode, stdout } = await run(command, options);
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(/\nvendor +limited +waiting +0 +\d+ /);
  expect(stdout).toMatch(
    /\nvendor +expired +set aside .* 401 +Incorrect API key provided: \[key\]\./,
  );
  expect(stdout).toMatch(/\nvendor +good +available +0 /);
  const metrics = await scrapeFresh(gateway.url);
  const states = ['available', 'waiting', 'set_aside', 'disabled'];
  const counts = states.map((state) =>
    metrics.value('tollgate_provider_keys', { provider: 'vendor', state }),
  );
  expect(counts).toEqual([1, 1, 3, 1]);
  const text = JSON.stringify([data, ...gateway.logLines]);
  expect(text).not.toContain('0123456789');
  const events = gateway.logLines.filter((line) => line.includes('provider_key_set_aside'));
  expect(events).toHaveLength(3);
  expect(events[0]).toContain('"provider":"vendor","key":"expired","status":401');
});

test('token counts use the keys in turn', async () => {
  const path = '/v1/messages/count_tokens';
  for (let i = 0; i < 4; i++) await gateway.post({ ...body, model: 'test/counted' }, { path });
  expect(counter.used).toEqual(['one', 'two', 'one', 'two']);
});
