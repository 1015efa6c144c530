/**
 * Streams that end with an error outside any event: bare JSON, as Google and proxies write it, or
 * an `error:` line, as older llama.cpp servers write it. The client receives the message.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { fieldsOf } from '../../src/core/json.ts';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const base_url = `${upstream.url}/v1`;
  gateway = await InProcessGateway.start({
    providers: {
      google: { dialect: 'gemini', base_url: `${upstream.url}/v1beta`, api_key: 'key' },
      claude: { dialect: 'anthropic', base_url, api_key: 'key' },
      llama: { dialect: 'openai', base_url, api_key: null },
    },
    models: ['google', 'claude', 'llama'].map((provider) =>
      chatModel(`acme/${provider}`, [{ provider, model: `${provider}-up` }]),
    ),
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const event = (type: string, fields: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;

const chunk = (fields: object) => `data: ${JSON.stringify(fields)}\n\n`;

/** The first text of an answer in each dialect. */
const openings = {
  google: chunk({ candidates: [{ content: { parts: [{ text: 'Hi' }] } }] }),
  claude:
    event('message_start', { message: { role: 'assistant', content: [], usage: {} } }) +
    event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }) +
    event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Hi' } }),
  llama: chunk({ choices: [{ index: 0, delta: { content: 'Hi' } }] }),
};

const overloaded = { type: 'overloaded_error', message: 'Overloaded' };
const unavailable = { code: 503, message: 'Try again later.', status: 'UNAVAILABLE' };
const contextExceeded = {
  code: 500,
  message: 'Context size has been exceeded.',
  type: 'server_error',
};

/** The provider, the text of the error, its status, and its message. Google uses several lines. */
const errors: [keyof typeof openings, string, number, string][] = [
  ['google', JSON.stringify({ error: unavailable }, null, 2), 503, unavailable.message],
  ['claude', JSON.stringify({ type: 'error', error: overloaded }), 503, overloaded.message],
  ['llama', `error: ${JSON.stringify(contextExceeded)}\n\n`, 502, contextExceeded.message],
];

function stream(provider: string, text: string) {
  upstream.script(`${provider}-up`, replay(text, { contentType: 'text/event-stream' }));
  const messages = [{ role: 'user', content: 'Hello!' }];
  return { model: `acme/${provider}`, messages };
}

test.each(errors)(
  'a %s stream ends with the error after text',
  async (provider, error, status, message) => {
    const answer = await gateway.stream(stream(provider, openings[provider] + error));
    expect(answer.doneCount).toBe(0);
    const failure = fieldsOf(fieldsOf(answer.chunks.at(-1)).error);
    expect(failure.code).toBe(status);
    expect(failure.message).toEndWith(message);
  },
);

test.each(errors)(
  'a %s stream without text fails with the status of the error',
  async (provider, error, status) => {
    const reply = await gateway.post({ ...stream(provider, error), stream: true });
    expect(reply.status).toBe(status);
  },
);

test('a JSON answer sent as an event stream is streamed to the client', async () => {
  const message = { role: 'assistant', content: 'Hello you' };
  const body = JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }] });
  const answer = await gateway.stream(stream('llama', body));
  expect([answer.content, answer.finishReasons, answer.doneCount]).toEqual([
    'Hello you',
    ['stop'],
    1,
  ]);
});
