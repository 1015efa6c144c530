import { afterAll, describe, expect, spyOn, test } from 'bun:test';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { providerNamed } from '../../tests/support/offers.ts';
import { serviceAccount } from '../../tests/support/service-account.ts';
import { waitUntil, within } from '../../tests/support/wait-until.ts';
import type { Provider } from '../config/config.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { GatewayError } from '../core/errors.ts';
import { Secret } from '../core/secret.ts';
import type { UpstreamRequest } from '../dialects/dialect.ts';
import { ConnectionError } from './connection/response.ts';
import { connectionFailure, secretsOf, send, throwLocalFailure } from './provider-client.ts';
import { UpstreamCall } from './upstream-call.ts';

const requests: { url: string; headers: Record<string, string>; body: string }[] = [];
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const headers = Object.fromEntries(request.headers);
    requests.push({ url: new URL(request.url).pathname, headers, body: await request.text() });
    return new Response('ok');
  },
});
afterAll(() => server.stop(true));

function provider(more: Partial<Provider> = {}): Provider {
  const baseUrl = `http://127.0.0.1:${server.port}/base/v1`;
  return providerNamed('vendor', { baseUrl, apiKey: new Secret('the-key'), ...more });
}

const request = { path: '/chat/completions', body: '{"a":1}', headers: {} };
const never = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);

/** Sends without an address check, because the operator chose the base URL. */
const sendTo = (to: Provider, body: UpstreamRequest = request, call = never) =>
  send(to, body, call, undefined);

async function sentTo(to: Provider) {
  await (await sendTo(to)).text();
  return requests.at(-1);
}

describe('send', () => {
  test("builds the URL from the provider's base URL", async () => {
    const at = await sentTo(provider());
    expect(at?.url).toBe('/base/v1/chat/completions');
    expect(at?.body).toBe('{"a":1}');
  });

  test.each([
    ['openai', 'authorization', 'Bearer the-key'],
    ['openai-responses', 'authorization', 'Bearer the-key'],
    ['cohere', 'authorization', 'Bearer the-key'],
    ['siliconflow', 'authorization', 'Bearer the-key'],
    ['bedrock', 'authorization', 'Bearer the-key'],
    ['anthropic', 'x-api-key', 'the-key'],
    ['gemini', 'x-goog-api-key', 'the-key'],
  ] as const)('sends the key of the %s dialect in %s', async (dialect, header, value) => {
    const headers = (await sentTo(provider({ dialect })))?.headers ?? {};
    expect(headers[header]).toBe(value);
    const keys = Object.values(headers).filter((text) => text.includes('the-key'));
    expect(keys).toEqual([value]);
  });

  const naive = '"naïve 😀"';
  const long = `"${'naïve '.repeat(4_000)}"`;
  test.each([
    ['a text', naive, naive],
    ['a long text', long, long],
    ['bytes', Buffer.from(naive), naive],
    ['a text followed by bytes', { start: '{"ï":', rest: Buffer.from(long) }, `{"ï":${long}`],
  ])('sends the content-length and all bytes of %s', async (_, body, text) => {
    await (await sendTo(provider(), { ...request, body })).text();
    const at = requests.at(-1);
    expect(at?.body).toBe(text);
    expect(at?.headers['content-length']).toBe(String(Buffer.from(text).length));
  });

  test('sends no credential for a provider without a key', async () => {
    const headers = (await sentTo(provider({ apiKey: null })))?.headers ?? {};
    expect(headers).not.toHaveProperty('authorization');
  });

  test('adds the configured headers and requests no compression', async () => {
    const headers = { 'x-project': new Secret('p1') };
    const at = await sentTo(provider({ headers }));
    expect(at?.headers).toMatchObject({ 'x-project': 'p1', 'accept-encoding': 'identity' });
  });
});

test('send uses HTTP_PROXY from the environment only for other machines', async () => {
  const proxied: string[] = [];
  const proxy = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch({ url }) {
      proxied.push(url);
      return new Response('diverted');
    },
  });
  process.env.HTTP_PROXY = `http://127.0.0.1:${proxy.port}`;
  try {
    const hosts = ['127.0.0.1', 'localhost', 'LocalHost'];
    for (const host of hosts) {
      expect((await sentTo(provider({ baseUrl: `http://${host}:${server.port}/v1` })))?.url).toBe(
        '/v1/chat/completions',
      );
    }
    expect(proxied).toEqual([]);
    const response = await sendTo(provider({ baseUrl: 'http://models.test/v1', isProxied: true }));
    expect(await response.text()).toBe('diverted');
    expect(proxied).toEqual(['http://models.test/v1/chat/completions']);
  } finally {
    delete process.env.HTTP_PROXY;
    await proxy.stop(true);
  }
});

test.each([
  ['has read the full body', 100_000, true],
  ['has not read the full body', 16_000_000, false],
])(
  'send through a proxy that %s records whether the request was accepted',
  async (_, length, is) => {
    const arrived = Promise.withResolvers<void>();
    const proxy = createServer((socket) => {
      // Reads the first bytes only. The rest of a short body fits into the socket's buffers.
      socket.on('error', () => undefined).once('data', () => arrived.resolve(void socket.pause()));
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const address = proxy.address();
    const client = new AbortController();
    const call = new UpstreamCall(new DeadlineWatcher(), client.signal);
    const bind = spyOn(call, 'bind');
    process.env.HTTP_PROXY = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
    try {
      const to = provider({ baseUrl: 'http://models.test/v1', isProxied: true });
      const sent = sendTo(to, { ...request, body: 'x'.repeat(length) }, call);
      await arrived.promise;
      // The runtime reports a long body as sent soon if it does so at all.
      if (is) await waitUntil(() => bind.mock.calls[0]?.[0].isAccepted);
      else await Bun.sleep(20);
      client.abort();
      await expect(sent).rejects.toThrow();
      expect(call.isAbandoned).toBe(is);
    } finally {
      delete process.env.HTTP_PROXY;
      proxy.close();
    }
  },
);

test('send retries once with a new token when a provider rejects the token', async () => {
  let rejected = 0;
  const google = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    routes: {
      '/token': () => Response.json({ access_token: `t${rejected}`, expires_in: 3_600 }),
      '/takes/chat/completions': () => new Response('ok'),
      // The token is accepted elsewhere first, so a new one may help.
      '/rejects/chat/completions': async () => {
        rejected++;
        await (await sendTo(at('takes'))).text();
        return new Response('no', { status: 401 });
      },
    },
  });
  const apiKey = new Secret(serviceAccount(`http://127.0.0.1:${google.port}/token`));
  const at = (path: string) =>
    provider({ baseUrl: `http://127.0.0.1:${google.port}/${path}`, apiKey });
  try {
    expect((await sendTo(at('rejects'))).status).toBe(401);
    expect(rejected).toBe(2);
  } finally {
    await google.stop(true);
  }
});

test('send keeps the tokens of 1,000 accounts, and secretsOf includes an evicted token', async () => {
  let tokens = 0;
  const google = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    routes: {
      '/token': () => Response.json({ access_token: `t${++tokens}`, expires_in: 3_600 }),
      '/chat/completions': () => new Response('ok'),
    },
  });
  const baseUrl = `http://127.0.0.1:${google.port}`;
  const account = (id: number) => {
    const text = serviceAccount(`${baseUrl}/token`, { client_id: String(id) });
    return provider({ baseUrl, apiKey: new Secret(text) });
  };
  const request = async (at: Provider) => (await sendTo(at)).text();
  try {
    const first = account(0);
    await request(first);
    for (let id = 1; id < 1_000; id++) secretsOf(account(id));
    await request(account(0));
    expect(tokens).toBe(1);
    for (let id = 1; id <= 1_000; id++) secretsOf(account(id));
    await request(account(0));
    expect(tokens).toBe(2);
    expect(secretsOf(first)).toContain('t1');
  } finally {
    await google.stop(true);
  }
});

test('send completes a shared token request even if one of its clients disconnects', async () => {
  const requested = Promise.withResolvers<void>();
  const issued = Promise.withResolvers<void>();
  let tokens = 0;
  const google = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch() {
      tokens++;
      requested.resolve();
      await issued.promise;
      return Response.json({ access_token: 'ya29.shared', expires_in: 3_600 });
    },
  });
  try {
    const apiKey = new Secret(serviceAccount(`http://127.0.0.1:${google.port}/token`));
    const leaving = new AbortController();
    const call = new UpstreamCall(new DeadlineWatcher(), leaving.signal);
    const abandoned = sendTo(provider({ apiKey }), request, call);
    const continued = sentTo(provider({ apiKey }));
    await within(requested.promise, 'the request to arrive');
    leaving.abort();
    await expect(abandoned).rejects.toThrow();
    issued.resolve();
    expect((await continued)?.headers.authorization).toBe('Bearer ya29.shared');
    expect(tokens).toBe(1);
  } finally {
    issued.resolve();
    await google.stop(true);
  }
});

test('connectionFailure does not reveal the host', () => {
  const error = Object.assign(new Error('connect ECONNREFUSED 10.0.0.7:443'), {
    code: 'ECONNREFUSED',
  });
  expect(connectionFailure(error, false)).toEqual({
    kind: 'unreachable',
    status: null,
    message: "The provider can't be reached (ECONNREFUSED).",
    retryAfterSeconds: null,
  });
  expect(connectionFailure(error, true).kind).toBe('timeout');
  expect(connectionFailure('odd', false).kind).toBe('unreachable');
});

test.each(['EMFILE', 'ENFILE'])('throwLocalFailure throws a retryable 503 for %s', (code) => {
  const error = new ConnectionError(code, 'Too many open files.');
  let rejection: unknown;
  try {
    throwLocalFailure(error, false);
  } catch (rejected) {
    rejection = rejected;
  }
  expect(rejection).toBeInstanceOf(GatewayError);
  expect(rejection).toMatchObject({ symbol: 'service_unavailable', retryAfterSeconds: 1 });
});
