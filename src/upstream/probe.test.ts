import { afterAll, expect, test } from 'bun:test';
import { providerNamed } from '../../tests/support/offers.ts';
import { Secret } from '../core/secret.ts';
import { probeProvider } from './probe.ts';

const requested: { line: string; isKeyShown: boolean }[] = [];
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch({ method, url, headers }) {
    const isKeyShown = [...headers.values()].some((value) => value.includes('the-key'));
    requested.push({ line: `${method} ${new URL(url).pathname}`, isKeyShown });
    return new Response('ok');
  },
});
afterAll(() => server.stop(true));

test.each(['openai', 'openai-responses', 'anthropic', 'gemini', 'siliconflow'] as const)(
  'the key of an upstream that speaks %s is tried by a look at its models, which is free',
  async (dialect) => {
    const baseUrl = `http://127.0.0.1:${server.port}/v1`;
    const provider = providerNamed('vendor', { baseUrl, dialect, apiKey: new Secret('the-key') });
    expect(await probeProvider(provider, 10_000)).toMatchObject({ kind: 'answered', status: 200 });
    expect(requested.at(-1)).toEqual({ line: 'GET /v1/models', isKeyShown: true });
  },
);

test.each(['bedrock', 'cohere'] as const)(
  'an upstream that speaks %s lists none there, and is shown no key for a look at its door',
  async (dialect) => {
    const baseUrl = `http://127.0.0.1:${server.port}/v1`;
    const provider = providerNamed('vendor', { baseUrl, dialect, apiKey: new Secret('the-key') });
    expect(await probeProvider(provider, 10_000)).toMatchObject({ kind: 'answered', status: 200 });
    expect(requested.at(-1)).toEqual({ line: 'GET /v1', isKeyShown: false });
  },
);
