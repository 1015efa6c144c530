import { afterAll, describe, expect, test } from 'bun:test';
import { everySection, loadConfig } from '../../config/load.ts';
import { runCheck } from './check.ts';
import { providerChecks, searchChecks } from './providers.ts';

const key = 'sk-of-the-operator';
/** The keys in the requests that the server received. */
const receivedKeys: (string | null)[] = [];

const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch({ url, method, headers }) {
    const { pathname } = new URL(url);
    if (method !== 'GET') return new Response('', { status: 418 });
    receivedKeys.push(headers.get('authorization') ?? headers.get('x-goog-api-key'));
    if (pathname.startsWith('/hangs')) return new Promise<Response>(() => {});
    return new Response('', { status: Number(pathname.split('/')[1]) });
  },
});
afterAll(() => server.stop(true));

const { host, origin } = server.url;

/** A self-signed certificate, used only in this test. */
const cert = `-----BEGIN CERTIFICATE-----
MIIBkDCCATagAwIBAgIUcasyBs1cUj8c7h8JhGeTVp+ShOUwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNjEyMjYzN1oYDzIxMjYxMDIz
MTIyNjM3WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASuo3yttwc28VXApAa9hhPDX9TwxNJ2Llh+BrUWT5qL2dpbpwqB1iwP
NBw/rJzK8woRv0C1Cv11Nt7Z6APpGZcco2QwYjAdBgNVHQ4EFgQUZMvryLQwlJq9
Qvdw8+xt5Zj+x2swHwYDVR0jBBgwFoAUZMvryLQwlJq9Qvdw8+xt5Zj+x2swDwYD
VR0TAQH/BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0gAMEUC
IQClRAkGF3bxmHJDpL9OYVtG3IxrhpWCtIP06br9LoIxiAIgRqraUVmurNgPxYHU
yw0Asba67SItbKl37wr2R1A+S1w=
-----END CERTIFICATE-----
`;
const certKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgE+nwAAW0drp53oUK
gi32DBuYYE+/MzeeTNU4SL8tY8ihRANCAASuo3yttwc28VXApAa9hhPDX9TwxNJ2
Llh+BrUWT5qL2dpbpwqB1iwPNBw/rJzK8woRv0C1Cv11Nt7Z6APpGZcc
-----END PRIVATE KEY-----
`;

function configOf(data: object) {
  return loadConfig({}, {}, everySection, { source: 'test', data: { catalogue: 'none', ...data } });
}

/** Runs the check of a provider with this base URL. */
async function checkProvider(base_url: string, options: object = {}) {
  const fake = { dialect: 'openai', base_url, api_key: key, ...options };
  const [check] = providerChecks(configOf({ providers: { fake } }));
  return check && runCheck(check);
}

describe('the provider check', () => {
  test('passes if the model list accepts the key', async () => {
    receivedKeys.length = 0;
    expect(await checkProvider(`${origin}/200`)).toMatchObject({ isHealthy: true, fix: null });
    expect(receivedKeys).toEqual([`Bearer ${key}`]);
  });

  test.each([400, 401, 403])('fails if the key is rejected with %d', async (status) => {
    expect(await checkProvider(`${origin}/${status}`, { dialect: 'gemini' })).toEqual({
      isHealthy: false,
      found: `${host} rejects the key (${status}).`,
      fix: 'Set providers.fake.api_key to a valid key.',
    });
  });

  test('calls with each enabled key of a provider that has several', async () => {
    receivedKeys.length = 0;
    const keyOf = (name: string) => ({ name, key: `sk-${name}-0123456789` });
    const api_keys = [keyOf('a'), keyOf('b'), { ...keyOf('c'), disabled: true }];
    const fake = { dialect: 'openai', base_url: `${origin}/401`, api_keys };
    const checks = providerChecks(configOf({ providers: { fake } }));
    expect(checks.map(({ name }) => name)).toEqual([
      'provider fake, key a',
      'provider fake, key b',
    ]);
    const findings = await Promise.all(checks.map(runCheck));
    expect(receivedKeys.toSorted()).toEqual(['Bearer sk-a-0123456789', 'Bearer sk-b-0123456789']);
    expect(findings.map((finding) => finding?.fix)).toEqual([
      'Set the key a in providers.fake.api_keys to a valid key.',
      'Set the key b in providers.fake.api_keys to a valid key.',
    ]);
  });

  test('fails if a call without a key is rejected', async () => {
    receivedKeys.length = 0;
    const finding = await checkProvider(`${origin}/401`, { api_key: null });
    expect(finding?.found).toBe(`${host} rejects a call without a key (401).`);
    expect(receivedKeys).toEqual([null]);
  });

  test('passes without a model list, but says that the key is not checked', async () => {
    const { isHealthy, found = '' } = (await checkProvider(`${origin}/404`)) ?? {};
    expect([isHealthy, found.replace(/\d+ ms/, '# ms')]).toEqual([
      true,
      `${host} answers in # ms, but doesn't support listing models (404), so the key wasn't checked. ` +
        'Check providers.fake.base_url if calls fail.',
    ]);
  });

  test('sends no key if the dialect has no free call', async () => {
    receivedKeys.length = 0;
    const bedrock = { dialect: 'bedrock', region: 'eu-central-1' };
    expect(await checkProvider(`${origin}/403`, bedrock)).toMatchObject({ isHealthy: true });
    expect(receivedKeys).toEqual([null]);
  });

  test.each([
    [301, 'returned status 301.', 'Check providers.fake.base_url.'],
    [503, 'returned status 503.', 'Try again later, or check its status page.'],
  ])('fails for status %d', async (status, found, fix) => {
    const finding = await checkProvider(`${origin}/${status}`);
    expect(finding).toEqual({ isHealthy: false, found: `${host} ${found}`, fix });
  });

  test('passes for status 429', async () => {
    expect(await checkProvider(`${origin}/429`)).toMatchObject({ isHealthy: true });
  });

  test('fails with the error code if the provider is unreachable', async () => {
    const stopped = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() });
    await stopped.stop(true);
    expect(await checkProvider(`${stopped.url.origin}/v1`)).toEqual({
      isHealthy: false,
      found: `${stopped.url.host} can't be reached (ECONNREFUSED).`,
      fix:
        'Check providers.fake.base_url, and make sure that this machine can reach the ' + 'server.',
    });
  });

  test('fails for a certificate that is not trusted', async () => {
    const tls = { cert, key: certKey };
    const fetch = () => new Response();
    await using untrusted = Bun.serve({ port: 0, hostname: '127.0.0.1', tls, fetch });
    expect(await checkProvider(`${untrusted.url.origin}/v1`)).toEqual({
      isHealthy: false,
      found:
        `${untrusted.url.host} has a certificate that isn't trusted here ` +
        '(DEPTH_ZERO_SELF_SIGNED_CERT).',
      fix:
        "Check providers.fake.base_url and this machine's clock. For a private certificate " +
        'authority, set NODE_EXTRA_CA_CERTS.',
    });
  });

  test('fails after a timeout', async () => {
    const fake = { dialect: 'openai', base_url: `${origin}/hangs`, api_key: key };
    const [check] = providerChecks(configOf({ providers: { fake } }), 100);
    expect(check && (await runCheck(check))).toEqual({
      isHealthy: false,
      found: `${host} didn't respond within 0.1 s.`,
      fix: 'Check providers.fake.base_url, and make sure that this machine can reach the server.',
    });
  });
});

test('without providers, the check passes only if the demo is on', async () => {
  const checkWith = async (data: object) => {
    const [check] = providerChecks(configOf(data));
    return check && runCheck(check);
  };
  expect(await checkWith({})).toMatchObject({ isHealthy: true });
  expect(await checkWith({ demo: false })).toEqual({
    isHealthy: false,
    found: 'No provider has a key, and the demo is off.',
    fix: "Set a provider's key, such as OPENAI_API_KEY.",
  });
});

describe('the web search check', () => {
  const checkSearch = async (
    status: number,
    engine: string,
    options: object = { api_key: key },
  ) => {
    const web_search = { engine, url: `${origin}/${status}`, ...options };
    const [check] = searchChecks(configOf({ tools: { web_search } }));
    return check && runCheck(check);
  };

  test.each(['searxng', 'tavily'])('fails if %s rejects the key in a free call', async (engine) => {
    receivedKeys.length = 0;
    expect(await checkSearch(403, engine)).toEqual({
      isHealthy: false,
      found: `${host} rejects the key (403).`,
      fix: 'Set tools.web_search.api_key to a valid key.',
    });
    expect(receivedKeys).toEqual([`Bearer ${key}`]);
  });

  test('explains how to enable JSON in SearXNG', async () => {
    expect(await checkSearch(403, 'searxng', {})).toEqual({
      isHealthy: false,
      found: `${host} rejects a call without a key (403).`,
      fix: 'Add json to search.formats in its settings.yml.',
    });
  });

  test('passes for an engine without free calls if its server answers', async () => {
    expect(await checkSearch(403, 'brave')).toMatchObject({ isHealthy: true });
  });

  test('is left out if no engine is configured', () => {
    expect(searchChecks(configOf({}))).toEqual([]);
  });
});
