/** Requests are distributed over the keys of one provider, and rejected keys are shown. */
import { afterAll, expect, test } from 'bun:test';
import { startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { scrapeFresh } from '../support/prometheus.ts';
import { pricing } from '../support/two-providers.ts';

/** A provider that answers each key differently and forwards the rest to the fake upstream. */
const fake = startFakeUpstream();
const statuses: Record<string, number> = {
  'sk-limited-0123456789': 429,
  'sk-expired-0123456789': 401,
};
const used: string[] = [];
const provider = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  async fetch(request) {
    const key = request.headers.get('authorization')?.replace('Bearer ', '') ?? '';
    used.push(key);
    const status = statuses[key];
    if (status === undefined) {
      const { pathname } = new URL(request.url);
      const body = await request.text();
      return fetch(fake.url + pathname, { method: 'POST', headers: request.headers, body });
    }
    const message = status === 401 ? `Incorrect API key provided: ${key}.` : 'Slow down.';
    return Response.json({ error: { message } }, { status, headers: { 'retry-after': '1000' } });
  },
});
afterAll(() => {
  void provider.stop(true);
  fake.stop();
});

test('no request fails if one of three keys is rate limited and one is rejected', async () => {
  const keyOf = (name: string) => ({ name, key: `sk-${name}-0123456789` });
  const gateway = await InProcessGateway.start({
    providers: {
      vendor: {
        dialect: 'openai',
        base_url: `${provider.url.origin}/v1`,
        api_keys: [
          keyOf('limited'),
          keyOf('expired'),
          { ...keyOf('good'), concurrent_requests: 1 },
          { ...keyOf('spare'), disabled: true },
        ],
      },
    },
    models: [chatModel('test/chat', [{ provider: 'vendor', model: 'chat', pricing }])],
  });
  afterAll(() => gateway.stop());
  const body = { model: 'test/chat', messages: [{ role: 'user', content: 'Hello!' }] };
  for (let i = 0; i < 6; i++) {
    // A stream frees its key when it ends.
    const { status } = i % 2 === 0 ? await gateway.post(body) : await gateway.stream(body);
    expect(status).toBe(200);
  }
  const count = (name: string) => used.filter((key) => key.includes(name)).length;
  expect(['limited', 'expired', 'good', 'spare'].map(count)).toEqual([1, 1, 6, 0]);

  const { data } = (await gateway.get('/admin/v1/providers', { key: gateway.keys.admin })).json;
  expect(data).toMatchObject([
    {
      name: 'vendor',
      circuit: 'closed',
      keys: [
        { name: 'limited', state: 'waiting', weight: 1, status: null, message: null },
        {
          name: 'expired',
          state: 'set_aside',
          status: 401,
          message: 'Incorrect API key provided: [key].',
        },
        { name: 'good', state: 'available', running_requests: 0, retry_after_seconds: null },
        { name: 'spare', state: 'disabled' },
      ],
    },
  ]);
  const metrics = await scrapeFresh(gateway.url);
  const states = ['available', 'waiting', 'set_aside', 'disabled'];
  const counts = states.map((state) =>
    metrics.value('tollgate_provider_keys', { provider: 'vendor', state }),
  );
  expect(counts).toEqual([1, 1, 1, 1]);
  const text = JSON.stringify([data, ...gateway.logLines]);
  expect(text).not.toContain('0123456789');
  const events = gateway.logLines.filter((line) => line.includes('provider_key_set_aside'));
  expect(events).toHaveLength(1);
  expect(events[0]).toContain('"provider":"vendor","key":"expired","status":401');
});
