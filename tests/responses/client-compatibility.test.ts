/**
 * Compatibility with Codex and OpenAI's SDK: responses with missing fields, and requests that break
 * other gateways.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import OpenAI from 'openai';
import { isObject } from '../../src/core/json.ts';
import { chatAnswer, json, replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const at = (dialect: string) => ({
    dialect,
    base_url: `${upstream.url}/v1`,
    api_key: 'upstream-key',
  });
  gateway = await InProcessGateway.start({
    providers: { open: at('openai'), answers: at('openai-responses') },
    models: [
      chatModel('acme/openai', [{ provider: 'open', model: 'openai-up' }]),
      chatModel('acme/responses', [{ provider: 'answers', model: 'responses-up' }]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const path = '/v1/responses';
const eventStream = (events: readonly { readonly type: string }[]) => {
  const lines = events.map((event, sequence_number) => {
    const data = JSON.stringify({ ...event, sequence_number });
    return `event: ${event.type}\ndata: ${data}\n\n`;
  });
  return replay(lines.join(''), { contentType: 'text/event-stream' });
};
const sentBody = (): Record<string, unknown> => {
  const body = upstream.requests.at(-1)?.json;
  return isObject(body) ? body : {};
};
const message = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'Hi', annotations: [] }],
};
const response = { id: 'resp_1', object: 'response', status: 'completed', output: [message] };

describe('the usage of a Responses upstream', () => {
  test.each([
    [{ input_tokens: 5, output_tokens: 3 }],
    [{ input_tokens: 5, output_tokens: 3, input_tokens_details: {}, output_tokens_details: {} }],
    [{ input_tokens: 5, output_tokens: 3, total_tokens: null, output_tokens_details: null }],
  ])('is completed with the counts that Codex requires: %j', async (usage) => {
    upstream.script('responses-up', json(200, { ...response, usage }));
    const { json: reply } = await gateway.post({ model: 'acme/responses', input: 'hi' }, { path });
    expect(reply.usage).toEqual({
      input_tokens: 5,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 3,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 8,
      // 1 credit per input token, 2 per output token.
      cost: 11,
    });
  });

  test('keeps the counts that the upstream sent', async () => {
    const usage = {
      input_tokens: 5,
      input_tokens_details: { cached_tokens: 4, vendor_count: 1 },
      output_tokens: 3,
      output_tokens_details: { reasoning_tokens: 2 },
      total_tokens: 8,
    };
    upstream.script('responses-up', json(200, { ...response, usage }));
    const { json: reply } = await gateway.post({ model: 'acme/responses', input: 'hi' }, { path });
    expect(reply.usage).toMatchObject(usage);
  });
});

test('reasoning that starts without a summary receives an empty summary', async () => {
  const started = { id: 'rs_1', type: 'reasoning', status: 'in_progress' };
  const events = [
    { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: started },
    { type: 'response.output_item.done', output_index: 1, item: message },
    { type: 'response.completed', response },
  ];
  upstream.script('responses-up', eventStream(events));
  const body = { model: 'acme/responses', input: 'hi', stream: true };
  const text = await (await gateway.fetch(body, { path })).text();
  expect(text).toContain(`"item":${JSON.stringify({ ...started, summary: [] })}`);
});

describe('a function_call_output without a call, which Codex sends to delegate a task', () => {
  const delegation = {
    type: 'function_call_output',
    id: 'fco_1',
    name: 'create_thread',
    namespace: 'codex_app',
    output: '<codex_delegation>Say hello.</codex_delegation>',
  };

  test('is sent to other dialects as a user message', async () => {
    upstream.script('openai-up', chatAnswer('Hello.'));
    const reply = await gateway.post({ model: 'acme/openai', input: [delegation] }, { path });
    expect(reply.status).toBe(200);
    expect(sentBody().messages).toEqual([{ role: 'user', content: delegation.output }]);
    // The `input` of a chat request is handled in the same way.
    await gateway.post({ model: 'acme/openai', input: [delegation] });
    expect(sentBody().messages).toEqual([{ role: 'user', content: delegation.output }]);
  });

  test('passes unchanged to a Responses upstream', async () => {
    upstream.script('responses-up', json(200, response));
    const reply = await gateway.post({ model: 'acme/responses', input: [delegation] }, { path });
    expect(reply.status).toBe(200);
    expect(sentBody().input).toEqual([delegation]);
  });

  test.each([null, ''])('is rejected with the call id %j', async (call_id) => {
    const input = [{ ...delegation, call_id }];
    const reply = await gateway.post({ model: 'acme/openai', input }, { path });
    expect([reply.status, reply.error.param]).toEqual([400, 'input[0].call_id']);
  });
});

test('adds type: object to a tool schema that has no type', async () => {
  upstream.script('openai-up', chatAnswer('Hello.'));
  const parameters = { type: null, properties: {} };
  const tools = [{ type: 'function', name: 'automation_update', parameters }];
  await gateway.post({ model: 'acme/openai', input: 'hi', tools }, { path });
  expect(sentBody().tools).toMatchObject([
    { function: { parameters: { type: 'object', properties: {} } } },
  ]);
});

test("starts a message without content in the format that OpenAI's SDK requires", async () => {
  const started = { id: 'msg_1', type: 'message', role: 'assistant', status: 'in_progress' };
  const part = { type: 'output_text', text: '', annotations: [] };
  const completed = { ...started, status: 'completed', content: [{ ...part, text: 'Hi' }] };
  const at = { output_index: 0, content_index: 0, item_id: 'msg_1' };
  const usage = { input_tokens: 5, output_tokens: 5, total_tokens: 10 };
  const response = { id: 'resp_1', object: 'response', status: 'in_progress', output: [] };
  const events = [
    { type: 'response.created', response },
    { type: 'response.output_item.added', output_index: 0, item: started },
    { type: 'response.content_part.added', ...at, part },
    { type: 'response.output_text.delta', ...at, delta: 'Hi' },
    { type: 'response.output_item.done', output_index: 0, item: completed },
    {
      type: 'response.completed',
      response: { ...response, status: 'completed', output: [completed], usage },
    },
  ];
  upstream.script('responses-up', eventStream(events));

  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.keys.routing });
  const stream = client.responses.stream({ model: 'acme/responses', input: 'hello' });
  let text = '';
  stream.on('response.output_text.delta', ({ snapshot }) => {
    text = snapshot;
  });
  expect((await stream.finalResponse()).output_text).toBe('Hi');
  expect(text).toBe('Hi');
});
