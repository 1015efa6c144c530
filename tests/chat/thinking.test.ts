/** Anthropic's `thinking` parameter in chat requests, which LiteLLM clients send. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const base = { base_url: `${upstream.url}/v1`, api_key: 'key' };
  const modelAt = (provider: string) =>
    chatModel(`acme/${provider}`, [{ provider, model: `${provider}-up` }], { thinking: 'budget' });
  gateway = await InProcessGateway.start({
    providers: {
      anthropic: { ...base, dialect: 'anthropic' },
      aws: { dialect: 'bedrock', base_url: upstream.url, api_key: 'bedrock-api-key-0123456789' },
      openai: { ...base, dialect: 'openai' },
    },
    models: ['anthropic', 'aws', 'openai'].map(modelAt),
  });
  upstream.script('*', chatAnswer('Rain.'));
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

const thinking = { type: 'enabled', budget_tokens: 2048 };

test.each([
  ['anthropic', { thinking }],
  ['aws', { additionalModelRequestFields: { thinking } }],
  ['openai', { thinking }],
])('passes the thinking budget of a chat request to %s', async (provider, expected) => {
  const messages = [{ role: 'user', content: 'Weather?' }];
  const body = { model: `acme/${provider}`, max_tokens: 4000, messages, thinking };
  const reply = await gateway.post(body);
  expect(reply.status).toBe(200);
  expect(upstream.requests.at(-1)?.json).toMatchObject(expected);
  expect(reply.headers.get('x-tollgate-dropped-params')).toBeNull();
});
