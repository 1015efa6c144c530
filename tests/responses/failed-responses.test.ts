/** Why OpenAI may give up a response that it has begun: it says so in an answer of status 200. */
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
  ...{ error: { code, message: 'It cannot be answered.' }, usage: null },
});
const streamed = (code: string) => {
  const event = { type: 'response.failed', response: failed(code) };
  return `event: response.failed\ndata: ${JSON.stringify(event)}\n\n`;
};
const doors: readonly [string, object][] = [
  ['/v1/responses', { input: 'Hi' }],
  ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }],
  ['/v1/messages', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 16 }],
];

function ask(path: string, body: object) {
  return gateway.post({ model: 'acme/gpt', ...body }, { path });
}
const asked = () => upstream.book.map(({ model }) => model);

describe.each(doors)('at %s the request is at fault, and nobody else is asked:', (path, body) => {
  test.each(['invalid_prompt', 'bio_policy', 'misalignment_policy_violation', 'image_too_large'])(
    '%s',
    async (code) => {
      const stream = replay(streamed(code), { contentType: 'text/event-stream' });
      upstream.script('first-up', [json(200, failed(code)), stream]);
      for (const fields of [body, { ...body, stream: true }]) {
        const { status, error } = await ask(path, fields);
        expect([status, error.message]).toEqual([400, 'It cannot be answered.']);
      }
      expect(asked()).toEqual(['first-up', 'first-up']);
    },
  );
});

test.each(['server_error', 'vector_store_timeout'])('the next is asked after %s', async (code) => {
  upstream.script('*', json(200, failed(code)));
  expect((await ask('/v1/responses', { input: 'Hi' })).status).toBe(502);
  expect(asked()).toEqual(['first-up', 'second-up']);
});
