import { afterAll, describe, expect, test } from 'bun:test';
import { providerNamed } from '../../tests/support/offers.ts';
import { serviceAccount } from '../../tests/support/service-account.ts';
import type { Provider } from '../config/config.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { GatewayError } from '../core/errors.ts';
import { Secret } from '../core/secret.ts';
import type { UpstreamRequest } from '../dialects/dialect.ts';
import { ConnectionError } from './connection/response.ts';
import { connectionFailure, secretsOf, send, throwLocalFailure } from './provider-client.ts';
import { UpstreamCall } from './upstream-call.ts';

const seen: { url: string; headers: Record<string, string>; body: string }[] = [];
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const headers = Object.fromEntries(request.headers);
    seen.push({ url: new URL(request.url).pathname, headers, body: await request.text() });
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

/** Where the operator chose the address, nobody checks it. */
const sending = (to: Provider, requested: UpstreamRequest = request, line = never) =>
  send(to, requested, line, undefined);

async function sentTo(to: Provider) {
  await (await sending(to)).text();
  return seen.at(-1);
}

describe('the door to providers', () => {
  test('builds the address from the provider alone', async () => {
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
  ] as const)('shows the key where %s looks for it', async (dialect, header, value) => {
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
    [
      'a new beginning before the bytes that came',
      { start: '{"ï":', rest: Buffer.from(long) },
      `{"ï":${long}`,
    ],
  ])('says how many bytes follow, and sends them all: %s', async (_, body, text) => {
    await (await sending(provider(), { ...request, body })).text();
    const at = seen.at(-1);
    expect(at?.body).toBe(text);
    expect(at?.headers['content-length']).toBe(String(Buffer.from(text).length));
  });

  test('sends no credential where there is none', async () => {
    const headers = (await sentTo(provider({ apiKey: null })))?.headers ?? {};
    expect(headers).not.toHaveProperty('authorization');
  });

  test('adds the operator’s headers, and asks for nothing compressed', async () => {
    const headers = { 'x-project': new Secret('p1') };
    const at = await sentTo(provider({ headers }));
    expect(at?.headers).toMatchObject({ 'x-project': 'p1', 'accept-encoding': 'identity' });
  });
});

test('a proxy of the environment is asked about other machines only', async () => {
  const requested: string[] = [];
  const proxy = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch({ url }) {
      requested.push(url);
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
    expect(requested).toEqual([]);
    const there = await sending(provider({ baseUrl: 'http://models.test/v1', isProxied: true }));
    expect(await there.text()).toBe('diverted');
    expect(requested).toEqual(['http://models.test/v1/chat/completions']);
  } finally {
    delete process.env.HTTP_PROXY;
    await proxy.stop(true);
  }
});

test('a provider that refuses each token gets a second one, and no third', async () => {
  let refused = 0;
  const google = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    routes: {
      '/token': () => Response.json({ access_token: `t${refused}`, expires_in: 3_600 }),
      '/takes/chat/completions': () => new Response('ok'),
      // The token was accepted elsewhere before, so that a new one might help.
      '/refuses/chat/completions': async () => {
        refused++;
        await (await sending(at('takes'))).text();
        return new Response('no', { status: 401 });
      },
    },
  });
  const apiKey = new Secret(serviceAccount(`http://127.0.0.1:${google.port}/token`));
  const at = (position: string) =>
    provider({ baseUrl: `http://127.0.0.1:${google.port}/${position}`, apiKey });
  try {
    expect((await sending(at('refuses'))).status).toBe(401);
    expect(refused).toBe(2);
  } finally {
    await google.stop(true);
  }
});

test('the tokens of a thousand accounts are kept, and no used one is revealed', async () => {
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
  const request = async (at: Provider) => (await sending(at)).text();
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

test('a client that leaves while a token is coming takes it from nobody else', async () => {
  const { promise: requested, resolve: info } = Promise.withResolvers<void>();
  const { promise: provided, resolve: give } = Promise.withResolvers<void>();
  let tokens = 0;
  const google = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch() {
      tokens++;
      info();
      await provided;
      return Response.json({ access_token: 'ya29.shared', expires_in: 3_600 });
    },
  });
  try {
    const apiKey = new Secret(serviceAccount(`http://127.0.0.1:${google.port}/token`));
    const leaving = new AbortController();
    const line = new UpstreamCall(new DeadlineWatcher(), leaving.signal);
    const left = sending(provider({ apiKey }), request, line);
    const staying = sentTo(provider({ apiKey }));
    await requested;
    leaving.abort();
    await expect(left).rejects.toThrow();
    give();
    expect((await staying)?.headers.authorization).toBe('Bearer ya29.shared');
    expect(tokens).toBe(1);
  } finally {
    give();
    await google.stop(true);
  }
});

test('a broken connection is told without the host it broke to', () => {
  const error = Object.assign(new Error('connect ECONNREFUSED 10.0.0.7:443'), {
    code: 'ECONNREFUSED',
  });
  expect(connectionFailure(error, false)).toEqual({
    kind: 'unreachable',
    status: null,
    message: 'The provider could not be reached (ECONNREFUSED).',
    retryAfterSeconds: null,
  });
  expect(connectionFailure(error, true).kind).toBe('timeout');
  expect(connectionFailure('odd', false).kind).toBe('unreachable');
});

test.each(['EMFILE', 'ENFILE'])('%s is our own failure, and soon over', (code) => {
  const error = new ConnectionError(code, 'There is no place for another.');
  let refusal: unknown;
  try {
    throwLocalFailure(error, false);
  } catch (refused) {
    refusal = refused;
  }
  expect(refusal).toBeInstanceOf(GatewayError);
  expect(refusal).toMatchObject({ symbol: 'service_unavailable', retryAfterSeconds: 1 });
});
