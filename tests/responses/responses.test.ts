/** The Responses endpoint over real sockets: what reaches each kind of provider, what it costs. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import codexRecording from '../../fixtures/requests/codex.json';
import { isObject } from '../../src/core/json.ts';
import { callTools, json, replay, say, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { type Spoken, type SpokenKind, spokenBy } from '../support/spoken-streams.ts';
import { checkResponsesStream } from '../support/stream-checks.ts';
import { readFixture } from '../support/upstream-conformance.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** A dollar is a million credits: so many credits for each token. */
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
  const text = await response.text();
  expect(response.headers.get('content-type')).toStartWith('text/event-stream');
  const requestId = response.headers.get('x-request-id') ?? '';
  return { requestId, response, text, seen: checkResponsesStream(text) };
}
function lastBody(): Record<string, unknown> {
  const body = upstream.book.at(-1)?.json;
  if (!isObject(body)) throw new Error('The upstream was asked nothing readable.');
  return body;
}
const eventStream = { contentType: 'text/event-stream', piece: 'event by event' as const };
const speak = (kind: SpokenKind, spoken: Spoken) =>
  upstream.script(`${kind}-up`, replay(spokenBy[kind](spoken), eventStream));

const tools = [
  { type: 'function', name: 'weather', parameters: { type: 'object', properties: {} } },
];
const calls = [
  { id: 'call_oslo01', name: 'weather', json: '{"at":"Oslo"}' },
  { id: 'call_bergen', name: 'weather', json: '{"at":"Bergen"}' },
];
const eventsToFirstWords = { openai: 2, anthropic: 3, gemini: 1, responses: 5 };
const kinds: readonly SpokenKind[] = ['openai', 'anthropic', 'gemini', 'responses'];

describe.each(kinds)('through a provider of the kind %s', (kind) => {
  const ask = (more: object = {}) => ({ model: `acme/${kind}`, input: 'Weather?', ...more });

  test('a text is streamed, counted, billed to the credit and logged', async () => {
    speak(kind, { text: 'Rain in Oslo. 🌧' });
    const { seen, requestId, text } = await stream(ask());
    expect(seen).toMatchObject({
      ended: 'whole',
      status: 'completed',
      model: `acme/${kind}`,
      id: `resp_${requestId.replaceAll('-', '')}`,
      text: 'Rain in Oslo. 🌧',
    });
    // 60 tokens in at 2 credits, 40 from the cache at 1, and 20 out at 12.
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

  test('several tools are called, each under its own id', async () => {
    speak(kind, { text: 'I look.', calls });
    const { seen, requestId } = await stream(ask({ tools }));
    expect(seen.text).toBe('I look.');
    expect(seen.tools.map(({ name, input }) => [name, JSON.parse(input)])).toEqual([
      ['weather', { at: 'Oslo' }],
      ['weather', { at: 'Bergen' }],
    ]);
    expect(seen.tools.map(({ callId }) => callId)).toEqual(['call_oslo01', 'call_bergen']);
    expect((await gateway.record(requestId)).finishReason).toBe('tool_calls');
  });

  test('a thought is shown, and what proves it comes back to its maker', async () => {
    const proof = kind === 'responses' ? 'gAAAAproof' : 'RXFZQ3Byb29m';
    speak(kind, { thought: 'Where is it?', proof, calls: calls.slice(0, 1) });
    const wish = { tools, reasoning: { effort: 'high', summary: 'auto' } };
    const { seen } = await stream(ask(wish));
    expect(seen.reasoning).toBe('Where is it?');
    const output = { type: 'function_call_output', call_id: 'call_oslo01', output: 'rain' };
    const input = [{ role: 'user', content: 'Weather?' }, ...seen.items, output];
    speak(kind, { text: 'Rain.' });
    const { seen: last } = await stream(ask({ ...wish, input }));
    expect(last.text).toBe('Rain.');
    const sent = JSON.stringify(lastBody());
    expect(sent).toContain('rain');
    // OpenAI-style servers give no proof, and get none.
    expect(sent.includes(proof)).toBe(kind !== 'openai');
    expect(sent).not.toContain('anthropic:');
    expect(sent).not.toContain('gemini:');
  });

  test('a refusal is one, in the words that the provider has for it', async () => {
    speak(kind, { refusal: 'I will not.' });
    const { seen } = await stream(ask());
    const hasWords = kind === 'openai' || kind === 'responses';
    expect([seen.refusal, seen.status, seen.incomplete]).toEqual(
      hasWords ? ['I will not.', 'completed', null] : ['', 'incomplete', 'content_filter'],
    );
  });

  test('an answer that ran out of tokens is incomplete', async () => {
    speak(kind, { text: 'Rain in', isCut: true });
    const { seen, requestId } = await stream(ask({ max_output_tokens: 20 }));
    expect(seen).toMatchObject({
      ended: 'whole',
      status: 'incomplete',
      incomplete: 'max_output_tokens',
      text: 'Rain in',
    });
    expect((await gateway.record(requestId)).finishReason).toBe('length');
  });

  test('an answer that breaks off is a failure, and never looks finished', async () => {
    const events = spokenBy[kind]({ text: 'Rain in Oslo all day.' }).split(/(?<=\n\n)/);
    const cut = events.slice(0, eventsToFirstWords[kind]).join('');
    upstream.script(`${kind}-up`, replay(cut, eventStream));
    const { seen, requestId, text } = await stream(ask());
    expect(seen).toMatchObject({ ended: 'error', status: 'failed' });
    expect(seen.error).toMatchObject({ code: 'server_error', param: null });
    expect(text).not.toContain('response.completed');
    const record = await gateway.record(requestId);
    expect(record).toMatchObject({ finishReason: null });
  });

  test('bad input is refused before anything is sent, and costs nothing', async () => {
    const refused = await post(
      ask({ input: [{ role: 'user', content: [{ type: 'input_text' }] }] }),
    );
    expect([refused.status, refused.error.param]).toEqual([400, 'input[0].content[0].text']);
    expect(upstream.book).toHaveLength(0);
    const record = await gateway.record(refused.requestId);
    expect(record.charges.modelCharge).toBe(0);
  });
});

describe('a provider that speaks the same', () => {
  test('gets the same words, and its answer passes with what nobody here knows', async () => {
    const whole = JSON.parse(readFixture('openai/responses-tool.json')) as Record<string, unknown>;
    const output = [
      { type: 'novelty_call', id: 'nv_1', n: 1 },
      ...(whole.output as object[]),
      { type: 'custom_tool_call', id: 'ctc_1', call_id: 'c', name: 'patch', input: '*** Begin' },
    ];
    upstream.script('responses-up', json(200, { ...whole, output }));
    const asked = {
      model: 'acme/responses',
      input: [{ type: 'novelty_output', id: 'nv_0' }],
      tools: [
        { type: 'custom', name: 'patch' },
        { type: 'novelty', a: 1 },
      ],
      novelty: true,
      store: true,
    };
    const reply = await post(asked);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBeNull();
    expect(lastBody()).toEqual({
      ...asked,
      model: 'responses-up',
      store: false,
      include: ['reasoning.encrypted_content'],
    });
    expect(upstream.book.at(-1)).toMatchObject({
      path: '/v1/responses',
      headers: { authorization: 'Bearer upstream-key' },
    });
    // 57 tokens in at 2 credits, 18 out at 12.
    expect(reply.json).toEqual({
      ...whole,
      id: `resp_${reply.requestId.replaceAll('-', '')}`,
      model: 'acme/responses',
      created_at: expect.any(Number),
      output,
      usage: { ...(whole.usage as object), cost: 330 },
    });
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(330);
  });

  test('and fails before its first word is followed by one that speaks differently', async () => {
    const broken = readFixture('openai/responses-error-stream.sse');
    upstream.script('responses-up', replay(broken, eventStream));
    upstream.script('openai-up', say('Here I am.'));
    const { seen } = await stream({ model: 'acme/two', input: 'Hi' });
    expect(seen).toMatchObject({ ended: 'whole', text: 'Here I am.', model: 'acme/two' });
  });
});

describe("Codex CLI's request", () => {
  const { body, headers } = codexRecording;

  test('as it was recorded, but for its texts, is answered by another provider', async () => {
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
    // The last one is OpenAI's own search, which it asks for without access to the web.
    expect(response.headers.get('x-tollgate-dropped-params')).toBe(
      'client_metadata, prompt_cache_key, tools[8]',
    );
  });

  test('reaches its own kind, but for its prompt’s name, bare thoughts and a search', async () => {
    speak('responses', { text: 'Done.' });
    const { seen, response } = await stream({ ...body, model: 'acme/responses' }, headers);
    expect(seen.text).toBe('Done.');
    // OpenAI charges for each search, and the account is the operator's.
    expect(response.headers.get('x-tollgate-dropped-params')).toBe('tools[8]');
    const { input, tools, ...rest } = lastBody();
    const { input: asked, tools: given, ...others } = body;
    expect(tools).toEqual(given.toSpliced(8, 1));
    // Another tenant may choose the same name.
    const prompt_cache_key = expect.stringMatching(/^[\w-]{43}$/);
    expect(rest).toEqual({ ...others, model: 'responses-up', stream: true, prompt_cache_key });
    const unproven = asked.filter(({ type }) => type !== 'reasoning');
    expect(input).toEqual(unproven.map(({ id: _, ...item }) => item));
  });
});

describe('what every request has', () => {
  const patch = { type: 'custom', name: 'patch', description: 'Patches files.' };

  test('free-form tools go and come as functions of one text', async () => {
    const call = { id: 'call_1', name: 'patch', arguments: { input: '*** Begin\n+a' } };
    upstream.script('openai-up', callTools([call]));
    const ask = { model: 'acme/openai', tools: [patch] };
    const { seen } = await stream({ ...ask, input: 'Patch it.' });
    expect(seen.tools).toMatchObject([{ type: 'custom_tool_call', input: '*** Begin\n+a' }]);
    upstream.script('openai-up', say('Patched.'));
    const output = { type: 'custom_tool_call_output', call_id: 'call_1', output: 'ok' };
    const reply = await post({ ...ask, input: [...seen.items, output] });
    expect(reply.json.output).toMatchObject([{ content: [{ text: 'Patched.' }] }]);
    expect(lastBody().messages).toMatchObject([
      { tool_calls: [{ id: 'call_1', function: { arguments: '{"input":"*** Begin\\n+a"}' } }] },
      { role: 'tool', tool_call_id: 'call_1', content: 'ok' },
    ]);
  });

  test('an answer may be given again, in either form', async () => {
    upstream.script('openai-up', say('Once.'));
    const ask = { model: 'acme/openai', input: 'Only once?', temperature: 0 };
    const { seen: first, response } = await stream(ask);
    expect(response.headers.get('x-cache')).toBe('MISS');
    const again = await post(ask);
    expect(again.headers.get('x-cache')).toBe('HIT');
    expect(again.json.output).toMatchObject([{ content: [{ text: 'Once.' }] }]);
    expect(again.json.id).not.toBe(first.id);
    expect(again.json.usage).toMatchObject({ cost: 0 });
    const streamed = await stream(ask);
    expect(streamed.seen).toMatchObject({ ended: 'whole', text: 'Once.' });
    expect(upstream.book).toHaveLength(1);
  });

  test('an idempotency key is charged once', async () => {
    upstream.script('anthropic-up', say('Once.'));
    const ask = { model: 'acme/anthropic', input: 'Hi' };
    const key = { 'idempotency-key': 'responses-1' };
    const [first, second] = [await post(ask, key), await post(ask, key)];
    expect(second.json.output).toMatchObject([{ content: [{ text: 'Once.' }] }]);
    expect(first.status).toBe(200);
    expect(upstream.book).toHaveLength(1);
    const other = await post({ ...ask, input: 'Ho' }, key);
    expect(other.status).toBe(409);
  });

  test('and a refusal of what is not kept says so, at every spelling of the path', async () => {
    for (const spelling of [
      '/v1/responses',
      '/responses',
      '/openai/v1/responses',
      '/api/v1/responses',
    ]) {
      const asked = { model: 'acme/openai', input: 'Hi', previous_response_id: 'resp_1' };
      const { status, error } = await gateway.post(asked, { path: spelling });
      expect([status, error.param, error.type]).toEqual([
        400,
        'previous_response_id',
        'invalid_request_error',
      ]);
    }
  });
});
