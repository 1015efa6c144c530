/** Failed responses, which OpenAI reports with HTTP status 200. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { json, replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const at = { dialect: 'openai-responses', base_url: `${upstream.url}/v1`, api_key: 'k-op' };
  gateway = await InProcessGateway.start({
    providers: { first: at, second: at },
    models: [
      chatModel('acme/gpt', [
        { provider: 'first', model: 'first-up' },
        { provider: 'second', model: 'second-up', priority: 1 },
      ]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const failed = (code: string) => ({
  ...{ id: 'resp_up', object: 'response', status: 'failed', model: 'first-up', output: [] },
  ...{ error: { code, message: 'The request failed.' }, usage: null },
});
const streamed = (code: string) => {
  const event = { type: 'response.failed', response: failed(code) };
  return `event: response.failed\ndata: ${JSON.stringify(event)}\n\n`;
};
const endpoints: readonly [string, object][] = [
  ['/v1/responses', { input: 'Hi' }],
  ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }],
  ['/v1/messages', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 16 }],
];

function post(path: string, body: object) {
  return gateway.post({ model: 'acme/gpt', ...body }, { path });
}
const triedModels = () => upstream.requests.map(({ model }) => model);

describe.each(endpoints)(
  '%s returns 400 without a fallback if a response failed with the code',
  (path, body) => {
    test.each(['invalid_prompt', 'bio_policy', 'misalignment_policy_violation', 'image_too_large'])(
      '%s',
      async (code) => {
        const stream = replay(streamed(code), { contentType: 'text/event-stream' });
        upstream.script('first-up', [json(200, failed(code)), stream]);
        for (const fields of [body, { ...body, stream: true }]) {
          const { status, error } = await post(path, fields);
          expect([status, error.message]).toEqual([400, 'The request failed.']);
        }
        expect(triedModels()).toEqual(['first-up', 'first-up']);
      },
    );
  },
);

test.each(['server_error', 'vector_store_timeout'])(
  'tries the next provider if a response failed with the code %s',
  async (code) => {
    upstream.script('*', json(200, failed(code)));
    expect((await post('/v1/responses', { input: 'Hi' })).status).toBe(502);
    expect(triedModels()).toEqual(['first-up', 'second-up']);
  },
);
