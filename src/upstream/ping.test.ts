import { afterAll, expect, test } from 'bun:test';
import { providerNamed } from '../../tests/support/offers.ts';
import { Secret } from '../core/secret.ts';
import { pingProvider } from './ping.ts';

const requests: { line: string; hasKey: boolean }[] = [];
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch({ method, url, headers }) {
    const hasKey = [...headers.values()].some((value) => value.includes('the-key'));
    requests.push({ line: `${method} ${new URL(url).pathname}`, hasKey });
    return new Response('ok');
  },
});
afterAll(() => server.stop(true));

test.each(['openai', 'openai-responses', 'anthropic', 'gemini', 'siliconflow'] as const)(
  'pingProvider lists the models of a provider with the %s dialect, using its key',
  async (dialect) => {
    const baseUrl = `http://127.0.0.1:${server.port}/v1`;
    const provider = providerNamed('vendor', { baseUrl, dialect, apiKey: new Secret('the-key') });
    expect(await pingProvider(provider, 10_000)).toMatchObject({ kind: 'answered', status: 200 });
    expect(requests.at(-1)).toEqual({ line: 'GET /v1/models', hasKey: true });
  },
);

test.each(['bedrock', 'cohere'] as const)(
  'pingProvider calls the base URL of a provider with the %s dialect without its key',
  async (dialect) => {
    const baseUrl = `http://127.0.0.1:${server.port}/v1`;
    const provider = providerNamed('vendor', { baseUrl, dialect, apiKey: new Secret('the-key') });
    expect(await pingProvider(provider, 10_000)).toMatchObject({ kind: 'answered', status: 200 });
    expect(requests.at(-1)).toEqual({ line: 'GET /v1', hasKey: false });
  },
);
