/** `/v1/responses` in front of each kind of provider: requests, streams, charges. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import codexRecording from '../../fixtures/requests/codex.json';
import { isObject } from '../../src/core/json.ts';
import {
  callTools,
  chatAnswer,
  json,
  replay,
  startFakeUpstream,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { readStreamText } from '../support/sse-client.ts';
import { checkResponsesStream } from '../support/stream-checks.ts';
import { readFixture } from '../support/upstream-conformance.ts';
import {
  type AnswerContent,
  type StreamFormatName,
  streamFormats,
} from '../support/upstream-streams.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** Prices in dollars per million tokens, which are credits per token. */
const pricing = { prompt: '2', completion: '12', cache_read: '1' };
const thinking = { thinking: 'effort' };

beforeAll(async () => {
  const { url } = upstream;
  const providerOf = (dialect: string, base = '/v1') => ({
    dialect,
    base_url: url + base,
    api_key: 'upstream-key',
  });
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      open: providerOf('openai'),
      claude: providerOf('anthropic'),
      google: providerOf('gemini', '/v1beta'),
      answers: providerOf('openai-responses'),
    },
    models: [
      chatModel('acme/openai', [{ provider: 'open', model: 'openai-up', pricing }], thinking),
      chatModel('acme/anthropic', [{ provider: 'claude', model: 'anthropic-up', pricing }], {
        thinking: 'adaptive',
      }),
      chatModel('acme/gemini', [{ provider: 'google', model: 'gemini-up', pricing }], thinking),
      chatModel('acme/responses', [{ provider: 'answers', model: 'responses-up', pricing }], {
        thinking: 'effort',
      }),
      chatModel(
        'acme/two',
        [
          { provider: 'answers', model: 'responses-up', priority: 0 },
          { provider: 'open', model: 'openai-up', priority: 1 },
        ],
        thinking,
      ),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const path = '/v1/responses';
const post = (body: unknown, headers: Record<string, string> = {}) =>
  gateway.post(body, { path, headers });
async function stream(body: object, headers: Record<string, string> = {}) {
  const response = await gateway.fetch({ ...body, stream: true }, { path, headers });
  const text = await readStreamText(response);
  expect(response.headers.get('content-type')).toStartWith('text/event-stream');
  const requestId = response.headers.get('x-request-id') ?? '';
  return { requestId, response, text, seen: checkResponsesStream(text) };
}
function lastBody(): Record<string, unknown> {
  const body = upstream.requests.at(-1)?.json;
  if (!isObject(body)) throw new Error('The upstream received no JSON object.');
  return body;
}
const eventStream = { contentType: 'text/event-stream', piece: 'event by event' as const };
const scriptAnswer = (kind: StreamFormatName, content: AnswerContent) =>
  upstream.script(`${kind}-up`, replay(streamFormats[kind](content), eventStream));

const tools = [
  { type: 'function', name: 'weather', parameters: { type: 'object', properties: {} } },
];
const calls = [
  { id: 'call_oslo01', name: 'weather', json: '{"at":"Oslo"}' },
  { id: 'call_bergen', name: 'weather', json: '{"at":"Bergen"}' },
];
const eventsToFirstText = { openai: 2, anthropic: 3, gemini: 1, responses: 5 };
const kinds: readonly StreamFormatName[] = ['openai', 'anthropic', 'gemini', 'responses'];

describe.each(kinds)('/v1/responses in front of %s', (kind) => {
  const requestWith = (more: object = {}) => ({
    model: `acme/${kind}`,
    input: 'Weather?',
    ...more,
  });

  test('streams a text, charges its exact usage, and logs the request', async () => {
    scriptAnswer(kind, { text: 'Rain in Oslo. 🌧' });
    const { seen, requestId, text } = await stream(requestWith());
    expect(seen).toMatchObject({
      ended: 'complete',
      status: 'completed',
      model: `acme/${kind}`,
      id: `resp_${requestId.replaceAll('-', '')}`,
      text: 'Rain in Oslo. 🌧',
    });
    // 60 input tokens at 2 credits, 40 cached tokens at 1, and 20 output tokens at 12.
    expect(seen.usage).toMatchObject({
      input_tokens: 100,
      input_tokens_details: { cached_tokens: 40 },
      output_tokens: 20,
      total_tokens: 120,
      cost: 400,
    });
    expect(text).not.toContain('up-1');
    const record = await gateway.record(requestId);
    expect(record).toMatchObject({ finishReason: 'stop', streamed: true, usageEstimated: false });
    expect(record.charges.modelCharge).toBe(400);
    const found = await gateway.get(`/v1/generation?id=${seen.id}`);
    expect(found.json.data).toMatchObject({ id: requestId, total_cost: 400 });
  });

  test('streams several tool calls, each with its own id', async () => {
    scriptAnswer(kind, { text: 'Let me look.', calls });
    const { seen, requestId } = await stream(requestWith({ tools }));
    expect(seen.text).toBe('Let me look.');
    expect(seen.tools.map(({ name, input }) => [name, JSON.parse(input)])).toEqual([
      ['weather', { at: 'Oslo' }],
      ['weather', { at: 'Bergen' }],
    ]);
    expect(seen.tools.map(({ callId }) => callId)).toEqual(['call_oslo01', 'call_bergen']);
    expect((await gateway.record(requestId)).finishReason).toBe('tool_calls');
  });

  test('streams reasoning and sends its signature back to the provider', async () => {
    const signature = kind === 'responses' ? 'gAAAAproof' : 'RXFZQ3Byb29m';
    scriptAnswer(kind, { reasoning: 'Where is it?', signature, calls: calls.slice(0, 1) });
    const options = { tools, reasoning: { effort: 'high', summary: 'auto' } };
    const { seen } = await stream(requestWith(options));
    expect(seen.reasoning).toBe('Where is it?');
    const output = { type: 'function_call_output', call_id: 'call_oslo01', output: 'rain' };
    const input = [{ role: 'user', content: 'Weather?' }, ...seen.items, output];
    scriptAnswer(kind, { text: 'Rain.' });
    const { seen: last } = await stream(requestWith({ ...options, input }));
    expect(last.text).toBe('Rain.');
    const sent = JSON.stringify(lastBody());
    expect(sent).toContain('rain');
    // OpenAI-style servers don't sign reasoning.
    expect(sent.includes(signature)).toBe(kind !== 'openai');
    expect(sent).not.toContain('anthropic:');
    expect(sent).not.toContain('gemini:');
  });

  test('returns a refusal, also if the provider only stops its answer', async () => {
    scriptAnswer(kind, { refusal: 'I will not.' });
    const { seen } = await stream(requestWith());
    const hasRefusals = kind === 'openai' || kind === 'responses';
    expect([seen.refusal, seen.status, seen.incomplete]).toEqual(
      hasRefusals
        ? ['I will not.', 'completed', null]
        : [
            'The provider stopped this answer because of its content policy.',
            ...['incomplete', 'content_filter'],
          ],
    );
  });

  test('returns an incomplete response if the output limit was reached', async () => {
    scriptAnswer(kind, { text: 'Rain in', isTruncated: true });
    const { seen, requestId } = await stream(requestWith({ max_output_tokens: 20 }));
    expect(seen).toMatchObject({
      ended: 'complete',
      status: 'incomplete',
      incomplete: 'max_output_tokens',
      text: 'Rain in',
    });
    expect((await gateway.record(requestId)).finishReason).toBe('length');
  });

  test('returns a failed response if the stream is cut off', async () => {
    const events = streamFormats[kind]({ text: 'Rain in Oslo all day.' }).split(/(?<=\n\n)/);
    const cut = events.slice(0, eventsToFirstText[kind]).join('');
    upstream.script(`${kind}-up`, replay(cut, eventStream));
    const { seen, requestId, text } = await stream(requestWith());
    expect(seen).toMatchObject({ ended: 'error', status: 'failed' });
    expect(seen.error).toMatchObject({ code: 'server_error', param: null });
    expect(text).not.toContain('response.completed');
    const record = await gateway.record(requestId);
    expect(record).toMatchObject({ finishReason: null });
  });

  test('rejects invalid input without calling the provider, free of charge', async () => {
    const refused = await post(
      requestWith({ input: [{ role: 'user', content: [{ type: 'input_text' }] }] }),
    );
    expect([refused.status, refused.error.param]).toEqual([400, 'input[0].content[0].text']);
    expect(upstream.requests).toHaveLength(0);
    const record = await gateway.record(refused.requestId);
    expect(record.charges.modelCharge).toBe(0);
  });
});

describe('a Responses upstream', () => {
  test('receives the request unchanged, and its answer passes with unknown fields', async () => {
    const answer = JSON.parse(readFixture('openai/responses-tool.json')) as Record<string, unknown>;
    const output = [
      { type: 'novelty_call', id: 'nv_1', n: 1 },
      ...(answer.output as object[]),
      { type: 'custom_tool_call', id: 'ctc_1', call_id: 'c', name: 'patch', input: '*** Begin' },
    ];
    upstream.script('responses-up', json(200, { ...answer, output }));
    const request = {
      model: 'acme/responses',
      input: [{ type: 'novelty_output', id: 'nv_0' }],
      tools: [
        { type: 'custom', name: 'patch' },
        { type: 'novelty', a: 1 },
      ],
      novelty: true,
      store: true,
    };
    const reply = await post(request);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBeNull();
    expect(lastBody()).toEqual({
      ...request,
      model: 'responses-up',
      store: false,
      include: ['reasoning.encrypted_content'],
    });
    expect(upstream.requests.at(-1)).toMatchObject({
      path: '/v1/responses',
      headers: { authorization: 'Bearer upstream-key' },
    });
    // 57 input tokens at 2 credits, 18 output tokens at 12.
    expect(reply.json).toEqual({
      ...answer,
      id: `resp_${reply.requestId.replaceAll('-', '')}`,
      model: 'acme/responses',
      created_at: expect.any(Number),
      output,
      usage: { ...(answer.usage as object), cost: 330 },
    });
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(330);
  });

  test('that fails before its first text is replaced by an upstream of another dialect', async () => {
    const broken = readFixture('openai/responses-error-stream.sse');
    upstream.script('responses-up', replay(broken, eventStream));
    upstream.script('openai-up', chatAnswer('Here I am.'));
    const { seen } = await stream({ model: 'acme/two', input: 'Hi' });
    expect(seen).toMatchObject({ ended: 'complete', text: 'Here I am.', model: 'acme/two' });
  });
});

describe("Codex CLI's request", () => {
  const { body, headers } = codexRecording;

  test('is converted for an OpenAI-style upstream', async () => {
    const call = { id: 'call_2', name: 'multi_agent_v1__wait_agent', arguments: { targets: [] } };
    upstream.script('openai-up', callTools([call]));
    const { seen, response } = await stream({ ...body, model: 'acme/openai' }, headers);
    expect(seen.tools).toMatchObject([{ name: 'wait_agent', namespace: 'multi_agent_v1' }]);
    const { messages, tools: sent } = lastBody() as {
      messages: { role: string; tool_calls?: { id: string }[] }[];
      tools: { function: { name: string } }[];
    };
    expect(messages.map(({ role }) => role)).toEqual([
      'system',
      'system',
      'user',
      'user',
      'assistant',
      'tool',
    ]);
    expect(messages[4]?.tool_calls?.map(({ id }) => id)).toEqual(['call_1']);
    expect(sent.map((tool) => tool.function.name)).toEqual([
      'exec_command',
      'write_stdin',
      'request_user_input',
      'view_image',
      'multi_agent_v1__close_agent',
      'multi_agent_v1__resume_agent',
      'multi_agent_v1__send_input',
      'multi_agent_v1__spawn_agent',
      'multi_agent_v1__wait_agent',
      'get_goal',
      'create_goal',
      'update_goal',
    ]);
    // tools[8] is OpenAI's own search tool. The request forbids it to access the web.
    expect(response.headers.get('x-tollgate-dropped-params')).toBe(
      'prompt_cache_key, client_metadata, tools[8]',
    );
  });

  test('is passed to a Responses upstream without the search tool and without unsigned reasoning', async () => {
    scriptAnswer('responses', { text: 'Done.' });
    const { seen, response } = await stream({ ...body, model: 'acme/responses' }, headers);
    expect(seen.text).toBe('Done.');
    // OpenAI charges the operator's account for each search.
    expect(response.headers.get('x-tollgate-dropped-params')).toBe('tools[8]');
    const { input, tools, ...rest } = lastBody();
    const { input: sentInput, tools: sentTools, ...others } = body;
    expect(tools).toEqual(sentTools.toSpliced(8, 1));
    // The key is hashed together with the tenant, because another tenant may use the same key.
    const prompt_cache_key = expect.stringMatching(/^[\w-]{43}$/);
    expect(rest).toEqual({ ...others, model: 'responses-up', stream: true, prompt_cache_key });
    const expectedItems = sentInput.filter(({ type }) => type !== 'reasoning');
    expect(input).toEqual(expectedItems.map(({ id: _, ...item }) => item));
  });
});

describe('/v1/responses', () => {
  const patch = { type: 'custom', name: 'patch', description: 'Patches files.' };

  test('converts custom tools and their calls to functions', async () => {
    const call = { id: 'call_1', name: 'patch', arguments: { input: '*** Begin\n+a' } };
    upstream.script('openai-up', callTools([call]));
    const request = { model: 'acme/openai', tools: [patch] };
    const { seen } = await stream({ ...request, input: 'Patch it.' });
    expect(seen.tools).toMatchObject([{ type: 'custom_tool_call', input: '*** Begin\n+a' }]);
    upstream.script('openai-up', chatAnswer('Patched.'));
    const output = { type: 'custom_tool_call_output', call_id: 'call_1', output: 'ok' };
    const reply = await post({ ...request, input: [...seen.items, output] });
    expect(reply.json.output).toMatchObject([{ content: [{ text: 'Patched.' }] }]);
    expect(lastBody().messages).toMatchObject([
      { tool_calls: [{ id: 'call_1', function: { arguments: '{"input":"*** Begin\\n+a"}' } }] },
      { role: 'tool', tool_call_id: 'call_1', content: 'ok' },
    ]);
  });

  test('replays a cached answer with and without streaming', async () => {
    upstream.script('openai-up', chatAnswer('Once.'));
    const request = { model: 'acme/openai', input: 'Only once?', temperature: 0 };
    const { seen: first, response } = await stream(request);
    expect(response.headers.get('x-cache')).toBe('MISS');
    const replay = await post(request);
    expect(replay.headers.get('x-cache')).toBe('HIT');
    expect(replay.json.output).toMatchObject([{ content: [{ text: 'Once.' }] }]);
    expect(replay.json.id).not.toBe(first.id);
    expect(replay.json.usage).toMatchObject({ cost: 0 });
    const streamed = await stream(request);
    expect(streamed.seen).toMatchObject({ ended: 'complete', text: 'Once.' });
    expect(upstream.requests).toHaveLength(1);
  });

  test('charges a request with an idempotency key once', async () => {
    upstream.script('anthropic-up', chatAnswer('Once.'));
    const request = { model: 'acme/anthropic', input: 'Hi' };
    const key = { 'idempotency-key': 'responses-1' };
    const [first, second] = [await post(request, key), await post(request, key)];
    expect(second.json.output).toMatchObject([{ content: [{ text: 'Once.' }] }]);
    expect(first.status).toBe(200);
    expect(upstream.requests).toHaveLength(1);
    const other = await post({ ...request, input: 'Ho' }, key);
    expect(other.status).toBe(409);
  });

  test('rejects previous_response_id on every path of the endpoint', async () => {
    for (const endpointPath of [
      '/v1/responses',
      '/responses',
      '/openai/v1/responses',
      '/api/v1/responses',
    ]) {
      const request = { model: 'acme/openai', input: 'Hi', previous_response_id: 'resp_1' };
      const { status, error } = await gateway.post(request, { path: endpointPath });
      expect([status, error.param, error.type]).toEqual([
        400,
        'previous_response_id',
        'invalid_request_error',
      ]);
    }
  });
});
