/**
 * Streams that end in an error which is no event: bare JSON, as Google and proxies write it, or a
 * line named after it, as older servers of llama.cpp do. The client hears what it says.
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

/** One word of an answer, as each of them begins it. */
const words = {
  google: chunk({ candidates: [{ content: { parts: [{ text: 'Hi' }] } }] }),
  claude:
    event('message_start', { message: { role: 'assistant', content: [], usage: {} } }) +
    event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }) +
    event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Hi' } }),
  llama: chunk({ choices: [{ index: 0, delta: { content: 'Hi' } }] }),
};

const overloaded = { type: 'overloaded_error', message: 'Overloaded' };
const unavailable = { code: 503, message: 'Try again later.', status: 'UNAVAILABLE' };
const full = { code: 500, message: 'Context size has been exceeded.', type: 'server_error' };

/** Google writes its errors on many lines. */
const errors: [keyof typeof words, string, number, string][] = [
  ['google', JSON.stringify({ error: unavailable }, null, 2), 503, unavailable.message],
  ['claude', JSON.stringify({ type: 'error', error: overloaded }), 503, overloaded.message],
  ['llama', `error: ${JSON.stringify(full)}\n\n`, 502, full.message],
];

function stream(provider: string, text: string) {
  upstream.script(`${provider}-up`, replay(text, { contentType: 'text/event-stream' }));
  const messages = [{ role: 'user', content: 'Hello!' }];
  return { model: `acme/${provider}`, messages };
}

test.each(errors)('%s: behind words', async (provider, error, status, sentence) => {
  const heard = await gateway.stream(stream(provider, words[provider] + error));
  expect(heard.dones).toBe(0);
  const told = fieldsOf(fieldsOf(heard.chunks.at(-1)).error);
  expect(told.code).toBe(status);
  expect(told.message).toEndWith(sentence);
});

test.each(errors)('%s: in place of an answer', async (provider, error, status) => {
  const reply = await gateway.post({ ...stream(provider, error), stream: true });
  expect(reply.status).toBe(status);
});

test('an answer without an event is one, whatever type its server gives it', async () => {
  const message = { role: 'assistant', content: 'Hello you' };
  const whole = JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }] });
  const heard = await gateway.stream(stream('llama', whole));
  expect([heard.content, heard.finishReasons, heard.dones]).toEqual(['Hello you', ['stop'], 1]);
});
