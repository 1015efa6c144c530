/**
 * A stream that breaks ends with an error event, and its transfer is never finished. Clients that
 * don't know the error event then fail, too, instead of taking a part for the complete answer.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { connectRaw, postText } from '../support/fake-upstream/raw-client.ts';
import {
  chatAnswer,
  errorInside200,
  resetMidStream,
  startFakeUpstream,
  status500,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
let withNames: InProcessGateway;

beforeAll(async () => {
  const settings = {
    providers: {
      vendor: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'k-op' },
      claude: { dialect: 'anthropic', base_url: `${upstream.url}/v1`, api_key: 'k-op' },
    },
    models: [
      chatModel('acme/chat', [{ provider: 'vendor', model: 'up' }]),
      chatModel('acme/claude', [{ provider: 'claude', model: 'up' }]),
    ],
  };
  gateway = await InProcessGateway.start(settings);
  withNames = await InProcessGateway.start({ ...settings, chat_error_codes: 'name' });
});
afterAll(async () => {
  await gateway.stop();
  await withNames.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const prompt = [{ role: 'user', content: 'Hi' }];
const chat = { messages: prompt };

/** Sends a streaming request and reads the bytes until the server closes the connection. */
async function rawStream(path: string, body: object, headers = '', at = gateway) {
  const connection = await connectRaw(at.port);
  const authorization = `authorization: Bearer ${at.keys.routing}\r\n`;
  const request = { model: 'acme/chat', stream: true, ...body };
  connection.send(postText(path, request, authorization + headers));
  const { text, ended } = await connection.finished();
  return { ended, body: text.slice(text.indexOf('\r\n\r\n') + 4) };
}

const lastChunk = '\r\n0\r\n\r\n';
const message = "The provider's response was interrupted.";
const messagesError =
  /\nevent: error\ndata: {"type":"error","error":{"type":"api_error",[^\n]+}}\n\n\r\n$/;
const routes: readonly (readonly [string, object, RegExp])[] = [
  [
    '/v1/chat/completions',
    chat,
    /\ndata: {"error":{"message":"[^"]+","type":"upstream_error","code":502,[^\n]+}}\n\n\r\n$/,
  ],
  ['/v1/messages', { ...chat, max_tokens: 64 }, messagesError],
  // Passed through from a provider with the client's format.
  ['/v1/anthropic/messages', { ...chat, max_tokens: 64, model: 'acme/claude' }, messagesError],
  ['/v1/responses', { input: 'Hi' }, /\nevent: response\.failed\ndata: {[^\n]+}\n\n\r\n$/],
];

describe.each(routes)('a broken stream of %s', (path, body, lastEvent) => {
  test('ends with an error event, and the connection closes without the last chunk', async () => {
    upstream.script('up', resetMidStream(5));
    const raw = await rawStream(path, body);
    expect(raw.body).toMatch(lastEvent);
    expect(raw.body).toContain(message);
    expect(raw.body).not.toContain(lastChunk);
    // A reset could discard chunks that the client hasn't read yet.
    expect(raw.ended).toBe('closed');
  });

  test('has a receipt that says that the answer was interrupted', async () => {
    upstream.script('up', errorInside200(5));
    const broken = { model: 'acme/chat', stream: true, ...body };
    const response = await gateway.fetch(broken, { path });
    const requestId = response.headers.get('x-request-id') ?? '';
    await response.body?.cancel();
    await gateway.record(requestId);
    const { json } = await gateway.get(`/v1/customer/logs/${requestId}`);
    expect(json.data).toMatchObject({
      ...{ outcome: 'interrupted', status: 'error', error: 'upstream_error' },
      ...{ finish_reason: null, streamed: true, cancelled: false },
    });
    expect(isObject(json.data) && json.data.failure).toStartWith('The answer was cut off.');
  });
});

test('a complete stream ends with the last chunk', async () => {
  upstream.script('up', chatAnswer('all of it'));
  const raw = await rawStream('/v1/chat/completions', chat, 'connection: close\r\n');
  expect(raw.body).toEndWith(`data: [DONE]\n\n${lastChunk}`);
  expect(raw.ended).toBe('closed');
});

test('a client that knows no error events fails to read a broken stream', async () => {
  upstream.script('up', resetMidStream(5));
  const response = await gateway.fetch({ model: 'acme/chat', stream: true, ...chat });
  expect(await response.text().catch(() => 'failed')).toBe('failed');
});

test('chat_error_codes: name makes the code of chat errors a text', async () => {
  upstream.script('up', resetMidStream(5));
  const raw = await rawStream('/v1/chat/completions', chat, '', withNames);
  expect(raw.body).toContain('"type":"upstream_error","code":"upstream_error","param":null}}');
  upstream.script('up', status500());
  const body = { model: 'acme/chat', ...chat };
  expect((await withNames.post(body)).error).toMatchObject({ code: 'upstream_error' });
  expect((await withNames.post(body, { key: 'sk-tg-unknown' })).error.code).toBe('invalid_api_key');
});
