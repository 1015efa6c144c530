/** What users of gateways complain of with Claude Code and other Messages clients. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import Anthropic from '@anthropic-ai/sdk';
import { AnthropicRig } from '../sdk/anthropic-rig.ts';
import { json, replay } from '../support/fake-upstream.ts';

let rig: AnthropicRig;

beforeAll(async () => {
  rig = await AnthropicRig.start();
});
afterAll(() => rig.stop());
beforeEach(() => rig.upstream.reset());

const path = '/v1/messages';
const hello = { role: 'user', content: 'hello' };
const ask = (model: string, messages: readonly object[] = [hello]) =>
  rig.gateway.post({ model, max_tokens: 100, messages }, { path });
const messageOf = async (upstreamSays: string) => {
  rig.upstream.script('open-fp8', json(400, { error: { message: upstreamSays } }));
  const { status, error } = await ask('acme/open');
  expect(status).toBe(400);
  return error.message;
};

describe('a conversation that has outgrown a model of another provider', () => {
  test.each([
    "This model's maximum context length is 128000 tokens. However, you sent 140000 tokens.",
    'Your input exceeds the context window of this model. Please adjust your input.',
    'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    'Please reduce the length of the messages or completion.',
    'prompt token count of 74490 exceeds the limit of 72000',
    'the request exceeds the available context size. try increasing the context size',
    'Input is too long for requested model.',
    'too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048.',
    'Invalid request: Your request exceeded model token limit: 262144 (requested: 262147)',
    'Prompt exceeds max length',
    'prompt too long; exceeded it by 12 tokens',
    'Input Tokens Exceeded: Number of input tokens exceeds maximum length.',
  ])('is told in the words at which Claude Code makes it shorter: %s', async (said) => {
    expect(await messageOf(said)).toBe(`prompt is too long: ${said}`);
  });

  test.each([
    'prompt is too long: 208310 tokens > 200000 maximum',
    'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000',
    "'max_tokens' is too large: 9000. This model's maximum context length is 8192 tokens.",
    'tools[0].function.parameters is no valid schema.',
  ])('is not read into other sentences, nor said twice: %s', async (said) => {
    expect(await messageOf(said)).toBe(said);
  });

  test('keeps its own words for other clients', async () => {
    const said = 'Your input exceeds the context window of this model.';
    rig.upstream.script('open-fp8', json(400, { error: { message: said } }));
    const { error } = await rig.gateway.post({ model: 'acme/open', messages: [hello] });
    expect(error.message).toBe(said);
  });
});

const contentType = 'text/event-stream';
const named = (type: string, fields: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'x', content: [] };

test('an overload is 529 to Anthropic’s clients, as there, and 503 to others', async () => {
  const body = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
  rig.upstream.script('claude-x', json(529, body));
  const reply = await ask('acme/claude');
  expect([reply.status, reply.error.type]).toEqual([529, 'overloaded_error']);
  expect(reply.headers.get('retry-after')).toBe('5');
  const other = await rig.gateway.post({ model: 'acme/claude', messages: [hello] });
  expect([other.status, other.error.type]).toEqual([503, 'upstream_error']);
});

test('providers that are asked too often are 503 for everybody', async () => {
  rig.upstream.script('claude-x', json(429, { error: { type: 'rate_limit_error' } }));
  expect((await ask('acme/claude')).status).toBe(503);
});

test('an overload in the middle of an answer is told as one: clients try again', async () => {
  const events = [
    named('message_start', { message: { ...message, usage: { input_tokens: 3 } } }),
    named('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    named('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Well' } }),
    named('error', { error: { type: 'overloaded_error', message: 'Overloaded' } }),
  ];
  rig.upstream.script('claude-x', replay(events.join(''), { contentType }));
  const body = { model: 'acme/claude', max_tokens: 100, messages: [hello], stream: true };
  const text = await (await rig.gateway.fetch(body, { path })).text();
  expect(text).toContain('"text":"Well"');
  expect(text.trim().split('\n').at(-1)).toStartWith(
    'data: {"type":"error","error":{"type":"overloaded_error"',
  );
});

describe('a tool call of another provider whose input breaks off', () => {
  const chunk = (delta: object, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const begun = { index: 0, id: 'call_1', function: { name: 'look', arguments: '{"path":"/a' } };
  const streamed = async (reason: string, rest = '') => {
    const events = [chunk({ tool_calls: [begun] }), chunk({}, reason), rest, 'data: [DONE]\n\n'];
    rig.upstream.script('open-fp8', replay(events.join(''), { contentType }));
    const body = { model: 'acme/open', max_tokens: 100, messages: [hello], stream: true };
    return (await rig.gateway.fetch(body, { path })).text();
  };

  test.each(['tool_calls', 'stop'])('is no answer, though it ends with %s', async (reason) => {
    const text = await streamed(reason);
    expect(text).toContain('"type":"error"');
    expect(text).not.toContain('tool_use","stop_sequence"');
    expect(text).not.toContain('message_stop');
  });

  test('at the limit of tokens is told as it is, and one that goes on is whole', async () => {
    expect(await streamed('length')).toContain('"stop_reason":"max_tokens"');
    const rest = chunk({ tool_calls: [{ index: 0, function: { arguments: '"}' } }] });
    expect(await streamed('tool_calls', rest)).toContain('"stop_reason":"tool_use"');
  });

  test('is not kept to be given again as a stream', async () => {
    const message = {
      role: 'assistant',
      content: null,
      tool_calls: [{ ...begun, type: 'function' }],
    };
    const choices = [{ index: 0, message, finish_reason: 'tool_calls' }];
    rig.upstream.script('open-fp8', json(200, { id: 'c', choices }));
    const body = { model: 'acme/open', max_tokens: 100, messages: [hello], temperature: 0 };
    expect((await rig.gateway.post(body, { path })).status).toBe(200);
    const again = await rig.gateway.fetch({ ...body, stream: true }, { path });
    expect(again.headers.get('x-cache')).toBe('MISS');
    expect(await again.text()).not.toContain('message_stop');
    expect(rig.upstream.requests.length).toBe(2);
  });
});

test('blocks that begin with null can be put together by the official SDK', async () => {
  const block = (index: number, content_block: object, delta: object) => [
    named('content_block_start', { index, content_block }),
    named('content_block_delta', { index, delta }),
    named('content_block_stop', { index }),
  ];
  const thought = { type: 'thinking', thinking: null, signature: null };
  const events = [
    named('message_start', { message: { ...message, content: null, usage: { input_tokens: 3 } } }),
    ...block(0, thought, { type: 'thinking_delta', thinking: 'Hm.' }),
    ...block(1, { type: 'text', text: null }, { type: 'text_delta', text: 'Well.' }),
    named('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } }),
    named('message_stop', {}),
  ];
  rig.upstream.script('claude-x', replay(events.join(''), { contentType }));
  const client = new Anthropic({ baseURL: rig.baseURL, apiKey: rig.apiKey, maxRetries: 0 });
  const { content } = await client.messages
    .stream({ model: 'acme/claude', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] })
    .finalMessage();
  expect(content).toMatchObject([
    { type: 'thinking', thinking: 'Hm.', signature: '' },
    { type: 'text', text: 'Well.' },
  ]);
});

describe('words that Anthropic would refuse for being empty', () => {
  const empty = { type: 'text', text: '' };
  const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };
  const result = { type: 'tool_result', tool_use_id: 'toolu_1' };

  test('are left out as a turn of the assistant', async () => {
    await ask('acme/claude', [hello, { role: 'assistant', content: ' ' }, hello]);
    expect(rig.lastBody.messages).toEqual([hello, hello]);
  });

  test('are left out where a tool had nothing to say, and beside other words', async () => {
    const called = { role: 'assistant', content: [call] };
    const said = { type: 'text', text: 'Go on.' };
    const found = [{ ...result, content: [empty] }, empty, said];
    await ask('acme/claude', [hello, called, { role: 'user', content: found }]);
    const heard = { role: 'user', content: [result, said] };
    expect(rig.lastBody.messages).toEqual([hello, called, heard]);
  });

  test('stay where a user says nothing else: there is something to complain of', async () => {
    const nothing = { role: 'user', content: [empty] };
    await ask('acme/claude', [nothing]);
    expect(rig.lastBody.messages).toEqual([nothing]);
  });
});

test('a forced tool that another provider does not have is not asked of it', async () => {
  const custom = { name: 'look', input_schema: { type: 'object' } };
  const tools = [{ type: 'bash_20250124', name: 'bash' }, custom];
  const forced = (name: string) => ({ tools, tool_choice: { type: 'tool', name } });
  const asked = { model: 'acme/open', max_tokens: 100, messages: [hello] };
  const reply = await rig.gateway.post({ ...asked, ...forced('bash') }, { path });
  expect(reply.headers.get('x-tollgate-dropped-params')).toBe('tool_choice, tools[0]');
  expect(rig.lastBody.tools).toMatchObject([{ function: { name: 'look' } }]);
  expect(rig.lastBody.tool_choice).toBeUndefined();
  await rig.gateway.post({ ...asked, ...forced('look') }, { path });
  expect(rig.lastBody.tool_choice).toEqual({ type: 'function', function: { name: 'look' } });
});

test('a pattern in a tool that OpenAI would refuse stays with Anthropic', async () => {
  const pattern = '^(?!__.*__$)[^\\p{Cc}]+$';
  const input_schema = { type: 'object', properties: { label: { type: 'string', pattern } } };
  const tools = [{ name: 'Artifact', input_schema }];
  const asked = { max_tokens: 100, messages: [hello], tools };
  await rig.gateway.post({ ...asked, model: 'acme/claude' }, { path });
  expect(rig.lastBody.tools).toEqual(tools);
  await rig.gateway.post({ ...asked, model: 'acme/open' }, { path });
  const parameters = { type: 'object', properties: { label: { type: 'string' } } };
  expect(rig.lastBody.tools).toEqual([
    { type: 'function', function: { name: 'Artifact', parameters } },
  ]);
});
