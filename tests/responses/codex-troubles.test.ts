/** What users of gateways complain of with Codex. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { json, replay, say, startFakeUpstream } from '../support/fake-upstream.ts';
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
const sent = (): Record<string, unknown> => {
  const body = upstream.book.at(-1)?.json;
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

describe('a server that counts less than OpenAI', () => {
  test.each([
    [{ input_tokens: 5, output_tokens: 3 }],
    [{ input_tokens: 5, output_tokens: 3, input_tokens_details: {}, output_tokens_details: {} }],
    [{ input_tokens: 5, output_tokens: 3, total_tokens: null, output_tokens_details: null }],
  ])('is told with every count that Codex wants: %j', async (usage) => {
    upstream.script('responses-up', json(200, { ...response, usage }));
    const { json: told } = await gateway.post({ model: 'acme/responses', input: 'hi' }, { path });
    expect(told.usage).toEqual({
      input_tokens: 5,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 3,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 8,
      // A credit for each token in, two for each token out.
      cost: 11,
    });
  });

  test('keeps the counts that it has', async () => {
    const usage = {
      input_tokens: 5,
      input_tokens_details: { cached_tokens: 4, of_their_own: 1 },
      output_tokens: 3,
      output_tokens_details: { reasoning_tokens: 2 },
      total_tokens: 8,
    };
    upstream.script('responses-up', json(200, { ...response, usage }));
    const { json: told } = await gateway.post({ model: 'acme/responses', input: 'hi' }, { path });
    expect(told.usage).toMatchObject(usage);
  });
});

test('a thought that begins without a summary gets an empty one', async () => {
  const begun = { id: 'rs_1', type: 'reasoning', status: 'in_progress' };
  const events = [
    { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: begun },
    { type: 'response.output_item.done', output_index: 1, item: message },
    { type: 'response.completed', response },
  ];
  const lines = events.map((event, number) => {
    const data = JSON.stringify({ ...event, sequence_number: number });
    return `event: ${event.type}\ndata: ${data}\n\n`;
  });
  upstream.script('responses-up', replay(lines.join(''), { contentType: 'text/event-stream' }));
  const body = { model: 'acme/responses', input: 'hi', stream: true };
  const text = await (await gateway.fetch(body, { path })).text();
  expect(text).toContain(`"item":${JSON.stringify({ ...begun, summary: [] })}`);
});

describe('a task that another task gave, without a call before it', () => {
  const given = {
    type: 'function_call_output',
    id: 'fco_1',
    name: 'create_thread',
    namespace: 'codex_app',
    output: '<codex_delegation>Say hello.</codex_delegation>',
  };

  test('is heard as words of a user by other providers', async () => {
    upstream.script('openai-up', say('Hello.'));
    const reply = await gateway.post({ model: 'acme/openai', input: [given] }, { path });
    expect(reply.status).toBe(200);
    expect(sent().messages).toEqual([{ role: 'user', content: given.output }]);
    // Nor is it the answer to a call where a chat is asked in these words.
    await gateway.post({ model: 'acme/openai', input: [given] });
    expect(sent().messages).toEqual([{ role: 'user', content: given.output }]);
  });

  test('goes on to OpenAI as it is', async () => {
    upstream.script('responses-up', json(200, response));
    const reply = await gateway.post({ model: 'acme/responses', input: [given] }, { path });
    expect(reply.status).toBe(200);
    expect(sent().input).toEqual([given]);
  });

  test.each([null, ''])('is refused when it has a call that cannot be: %j', async (call_id) => {
    const input = [{ ...given, call_id }];
    const reply = await gateway.post({ model: 'acme/openai', input }, { path });
    expect([reply.status, reply.error.param]).toEqual([400, 'input[0].call_id']);
  });
});

test('a tool whose schema has no type gets the only one there is', async () => {
  upstream.script('openai-up', say('Hello.'));
  const parameters = { type: null, properties: {} };
  const tools = [{ type: 'function', name: 'automation_update', parameters }];
  await gateway.post({ model: 'acme/openai', input: 'hi', tools }, { path });
  expect(sent().tools).toMatchObject([
    { function: { parameters: { type: 'object', properties: {} } } },
  ]);
});
