import { afterAll, describe, expect, test } from 'bun:test';
import { everySection, loadConfig } from '../../config/load.ts';
import { runCheck } from './check.ts';
import { providerChecks, searchChecks } from './providers.ts';

const key = 'sk-of-the-operator';
const shown: (string | null)[] = [];

const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch({ url, method, headers }) {
    const { pathname } = new URL(url);
    if (method !== 'GET') return new Response('', { status: 418 });
    shown.push(headers.get('authorization') ?? headers.get('x-goog-api-key'));
    if (pathname.startsWith('/hangs')) return new Promise<Response>(() => {});
    return new Response('', { status: Number(pathname.split('/')[1]) });
  },
});
afterAll(() => server.stop(true));

const { host, origin } = server.url;

/** Signed by itself, for this test alone. */
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

async function foundAt(base_url: string, more: object = {}) {
  const fake = { dialect: 'openai', base_url, api_key: key, ...more };
  const [check] = providerChecks(configOf({ providers: { fake } }));
  return check && runCheck(check);
}

describe('a provider', () => {
  test('that answers its model list is well, and is shown its key', async () => {
    shown.length = 0;
    expect(await foundAt(`${origin}/200`)).toMatchObject({ isWell: true, fix: null });
    expect(shown).toEqual([`Bearer ${key}`]);
  });

  test.each([400, 401, 403])('refuses its key with %d', async (status) => {
    expect(await foundAt(`${origin}/${status}`, { dialect: 'gemini' })).toEqual({
      isHealthy: false,
      found: `${host} refuses the key (${status}).`,
      fix: 'Set providers.fake.api_key to a key that it accepts.',
    });
  });

  test('without a key of ours may want one', async () => {
    shown.length = 0;
    const finding = await foundAt(`${origin}/401`, { api_key: null });
    expect(finding?.found).toBe(`${host} refuses a call without a key (401).`);
    expect(shown).toEqual([null]);
  });

  test('without a model list is reached, and nothing else is vouched for', async () => {
    const { isHealthy: isWell, found = '' } = (await foundAt(`${origin}/404`)) ?? {};
    expect([isWell, found.replace(/\d+ ms/, '# ms')]).toEqual([
      true,
      `${host} answers in # ms, but offers no model list (404): the key is untried, and ` +
        'providers.fake.base_url may be wrong.',
    ]);
  });

  test('whose dialect has no free call is not shown the key', async () => {
    shown.length = 0;
    const bedrock = { dialect: 'bedrock', region: 'eu-central-1' };
    expect(await foundAt(`${origin}/403`, bedrock)).toMatchObject({ isWell: true });
    expect(shown).toEqual([null]);
  });

  test.each([
    [301, 'answers with 301.', 'Check providers.fake.base_url.'],
    [503, 'fails with 503.', 'Try again later, or see its status page.'],
  ])('that answers %d is a cross', async (status, found, fix) => {
    const finding = await foundAt(`${origin}/${status}`);
    expect(finding).toEqual({ isHealthy: false, found: `${host} ${found}`, fix });
  });

  test('that asks for patience is not to blame', async () => {
    expect(await foundAt(`${origin}/429`)).toMatchObject({ isWell: true });
  });

  test('that is away is named with the reason', async () => {
    const gone = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() });
    await gone.stop(true);
    expect(await foundAt(`${gone.url.origin}/v1`)).toEqual({
      isHealthy: false,
      found: `${gone.url.host} cannot be reached (ECONNREFUSED).`,
      fix: 'Check providers.fake.base_url, and that this machine may reach it.',
    });
  });

  test('whose certificate nobody vouches for is told as such', async () => {
    const tls = { cert, key: certKey };
    const fetch = () => new Response();
    await using strange = Bun.serve({ port: 0, hostname: '127.0.0.1', tls, fetch });
    expect(await foundAt(`${strange.url.origin}/v1`)).toEqual({
      isHealthy: false,
      found:
        `${strange.url.host} shows a certificate that is not trusted here ` +
        '(DEPTH_ZERO_SELF_SIGNED_CERT).',
      fix:
        'Check providers.fake.base_url and the clock; NODE_EXTRA_CA_CERTS names an authority of ' +
        'your own.',
    });
  });

  test('that hangs is given up', async () => {
    const fake = { dialect: 'openai', base_url: `${origin}/hangs`, api_key: key };
    const [check] = providerChecks(configOf({ providers: { fake } }), 100);
    expect(check && (await runCheck(check))).toEqual({
      isHealthy: false,
      found: `${host} did not answer within 0.1 s.`,
      fix: 'Check providers.fake.base_url, and that this machine may reach it.',
    });
  });
});

test('without any provider the demo answers, or nobody', async () => {
  const look = async (data: object) => {
    const [check] = providerChecks(configOf(data));
    return check && runCheck(check);
  };
  expect(await look({})).toMatchObject({ isWell: true });
  expect(await look({ demo: false })).toEqual({
    isHealthy: false,
    found: 'None has a key, and the demo is off.',
    fix: 'Set the key of one, such as OPENAI_API_KEY.',
  });
});

describe('the search engine', () => {
  const look = async (status: number, engine: string, more: object = { api_key: key }) => {
    const web_search = { engine, url: `${origin}/${status}`, ...more };
    const [check] = searchChecks(configOf({ tools: { web_search } }));
    return check && runCheck(check);
  };

  test.each(['searxng', 'tavily'])('%s refuses its key in a free call', async (engine) => {
    shown.length = 0;
    expect(await look(403, engine)).toEqual({
      isHealthy: false,
      found: `${host} refuses the key (403).`,
      fix: 'Set tools.web_search.api_key to a key that it accepts.',
    });
    expect(shown).toEqual([`Bearer ${key}`]);
  });

  test('of one’s own that gives no JSON is told how it would', async () => {
    expect(await look(403, 'searxng', {})).toEqual({
      isHealthy: false,
      found: `${host} refuses a call without a key (403).`,
      fix: 'Add json to search.formats in its settings.yml.',
    });
  });

  test('that charges for every call is reached only', async () => {
    expect(await look(403, 'brave')).toMatchObject({ isWell: true });
  });

  test('that is not configured has no line', () => {
    expect(searchChecks(configOf({}))).toEqual([]);
  });
});
