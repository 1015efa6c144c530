/** The Messages endpoint over real sockets: what providers receive, and what it costs. */
import { describe, expect, test } from 'bun:test';
import claudeCodeRecording from '../../fixtures/requests/claude-code.json';
import { claudeCodeHeaders, claudeCodeRequest } from '../support/claude-code-request.ts';
import {
  callTools,
  chatAnswer,
  cutMidStream,
  gated,
  status500,
  withoutUsage,
  words,
} from '../support/fake-upstream.ts';
import { modelsByDialect, useSdkGateway } from '../support/sdk-gateway.ts';
import { readStreamText, SlowReader } from '../support/sse-client.ts';
import { checkAnthropicStream } from '../support/stream-checks.ts';

/** A recorded Claude Code request, with longer texts replaced by `(n characters)`. */
const recorded = claudeCodeRecording as {
  readonly headers: Record<string, string>;
  readonly body: { readonly tools: readonly { readonly name: string }[] };
};

const sdk = await useSdkGateway();

const path = '/v1/messages';
const hello = [{ role: 'user', content: 'how are you' }];
const request = (model: string, more: object = {}) => ({
  model,
  max_tokens: 100,
  messages: hello,
  ...more,
});
const post = (body: unknown, headers: Record<string, string> = {}) =>
  sdk.gateway.post(body, { path, headers });
async function stream(body: object, headers: Record<string, string> = {}) {
  const response = await sdk.gateway.fetch({ ...body, stream: true }, { path, headers });
  expect(response.headers.get('content-type')).toStartWith('text/event-stream');
  const requestId = response.headers.get('x-request-id') ?? '';
  return { requestId, response, seen: checkAnthropicStream(await readStreamText(response)) };
}

describe('a Claude Code request', () => {
  test('is answered by another provider as it was recorded, except for shortened texts', async () => {
    const { headers, body } = recorded;
    sdk.upstream.script('open-fp8', chatAnswer('Hello.'));
    const { seen } = await stream({ ...body, model: 'acme/open' }, headers);
    expect(seen).toMatchObject({ ended: 'complete', text: 'Hello.', stopReason: 'end_turn' });
    const messages = sdk.lastBody.messages as { role: string }[];
    // The recording has an instruction after the user message, and it stays at that position.
    expect(messages.map(({ role }) => role)).toEqual(['system', 'user', 'system']);
    const tools = sdk.lastBody.tools as { function: { name: string } }[];
    expect(tools.map((tool) => tool.function.name)).toEqual(body.tools.map(({ name }) => name));
  });

  test('is translated for an OpenAI-style provider, with dropped parameters reported', async () => {
    const call = { name: 'Bash', arguments: { command: 'ls -a' }, id: 'call_1' };
    sdk.upstream.script('open-fp8', callTools([call], { text: 'Again', reasoning: 'hm' }));
    const { seen, response } = await stream(claudeCodeRequest('acme/open'), {
      ...claudeCodeHeaders,
    });
    expect(seen).toMatchObject({
      ended: 'complete',
      model: 'acme/open',
      blocks: ['thinking', 'text', 'tool_use'],
      text: 'Again',
      tools: [{ id: 'call_1', name: 'Bash', input: { command: 'ls -a' } }],
      stopReason: 'tool_use',
    });
    expect(sdk.lastRequest.headers['anthropic-beta']).toBeUndefined();
    expect(sdk.lastBody.messages).toEqual([
      {
        role: 'system',
        content: 'x-anthropic-billing-header: cc_version=2.1.325\n\nYou are Claude Code.',
      },
      {
        role: 'user',
        content: [
          { type: 'text', text: '<system-reminder>Today is Sunday.</system-reminder>' },
          { type: 'text', text: 'What is in notes.txt?' },
        ],
      },
      {
        role: 'assistant',
        content: 'I will look.',
        tool_calls: [
          {
            id: 'toolu_01',
            type: 'function',
            function: { name: 'Read', arguments: '{"file_path":"/notes.txt"}' },
          },
          {
            id: 'toolu_02',
            type: 'function',
            function: { name: 'Bash', arguments: '{"command":"ls"}' },
          },
        ],
      },
      { role: 'tool', tool_call_id: 'toolu_01', content: '1\tbuy milk' },
      { role: 'tool', tool_call_id: 'toolu_02', content: 'Error: ls: cannot open directory' },
      { role: 'system', content: 'Plan mode is over.' },
    ]);
    const names = ['Read', 'Bash', 'mcp__tracker__list_issues'];
    expect(sdk.lastBody.tools).toMatchObject(names.map((name) => ({ function: { name } })));
    expect(sdk.lastBody).toMatchObject({ reasoning_effort: 'high', stream: true });
    const dropped = response.headers.get('x-tollgate-dropped-params')?.split(', ') ?? [];
    expect(dropped.toSorted()).toEqual([
      'cache_control',
      'context_management',
      'tools.defer_loading',
      'tools[3]',
      'tools[4]',
    ]);
  });

  test("drops reasoning for a model that doesn't reason", async () => {
    const { response } = await stream(claudeCodeRequest('acme/tools'), { ...claudeCodeHeaders });
    expect(sdk.lastBody).not.toHaveProperty('reasoning_effort');
    expect(response.headers.get('x-tollgate-dropped-params')?.split(', ')).toContain('reasoning');
  });

  test("reaches an Anthropic-style provider without other providers' thinking and without web search", async () => {
    const sent = claudeCodeRequest('acme/claude');
    const { seen, response } = await stream(sent, { ...claudeCodeHeaders });
    expect(seen).toMatchObject({ ended: 'complete', model: 'acme/claude' });
    const { headers } = sdk.lastRequest;
    expect(headers['anthropic-beta']).toBe(claudeCodeHeaders['anthropic-beta'] ?? '');
    expect(headers['x-api-key']).toBe('upstream-account-secret');
    expect(headers['x-app']).toBeUndefined();
    const [question, answer, ...rest] = sent.messages;
    // The thinking has no signature, so it's another provider's.
    const remaining = answer?.content.filter(({ type }) => type !== 'thinking') ?? [];
    const messages = [question, { role: 'assistant', content: remaining }, ...rest];
    // Anthropic charges the operator's account for each search, so the tool is removed.
    const tools = sent.tools.filter(({ name }) => name !== 'web_search');
    expect(sdk.lastBody).toEqual({ ...sent, model: 'claude-x', messages, tools });
    const searchIndex = sent.tools.findIndex(({ name }) => name === 'web_search');
    expect(response.headers.get('x-tollgate-dropped-params')).toBe(`tools[${searchIndex}]`);
  });
});

describe('a Messages request to an Anthropic-style provider', () => {
  test('is forwarded byte for byte except for its model', async () => {
    const head = '{ "model" : "acme/claude", "max_tokens":5,"messages":[{"role":"user","content":';
    const tail = '"h\\u00e9"}],"novelty":{"a":[1e0,12345678901234567890]}}';
    expect((await post(head + tail)).status).toBe(200);
    const raw = new TextDecoder().decode(sdk.lastRequest.raw);
    expect(raw).toBe(`{"model":"claude-x"${head.slice(25)}${tail}`);
  });

  test("loses the gateway's fields and keeps unknown fields", async () => {
    const more = { models: ['acme/open'], provider: { only: ['claude'] }, route: 'fallback' };
    const body = request('acme/claude', { ...more, skills: [], plugins: [], novelty: 1 });
    expect((await post(body)).status).toBe(200);
    expect(sdk.lastBody).toEqual({ ...request('claude-x'), novelty: 1 });
  });

  test("is limited to the model's maximum output", async () => {
    await post(request('acme/claude', { max_tokens: 200_000 }));
    expect(sdk.lastBody.max_tokens).toBe(64_000);
  });

  test("has the client's version and betas, unless they are invalid", async () => {
    await post(request('acme/claude'), {
      'anthropic-version': '2026-10-21',
      'anthropic-beta': 'a-1, b"2 ,,c.3',
    });
    expect(sdk.lastRequest.headers).toMatchObject({
      'anthropic-version': '2026-10-21',
      'anthropic-beta': 'a-1,c.3',
    });
    await post(request('acme/claude'), { 'anthropic-version': 'a b' });
    expect(sdk.lastRequest.headers['anthropic-version']).toBe('2023-06-01');
  });
});

describe('an invalid Messages request', () => {
  const block = (content: unknown, role = 'user') => ({ messages: [{ role, content: [content] }] });
  const cases: readonly (readonly [string, object])[] = [
    ['max_tokens', { max_tokens: undefined }],
    ['max_tokens', { max_tokens: -1 }],
    ['temperature', { temperature: 1.5 }],
    ['messages', { messages: [] }],
    ['messages[0].role', { messages: [{ role: 'tool', content: 'x' }] }],
    ['messages[0].content', { messages: [{ role: 'user' }] }],
    ['messages[0].content[0].type', block({ text: 'x' })],
    ['messages[0].content[0].text', block({ type: 'text', text: 5 })],
    ['messages[0].content[0].source.type', block({ type: 'image', source: { type: 'disk' } })],
    [
      'messages[0].content[0].source.url',
      block({ type: 'image', source: { type: 'url', url: 'ftp:x' } }),
    ],
    ['messages[0].content[0].tool_use_id', block({ type: 'tool_result', content: 'x' })],
    [
      'messages[0].content[0].content[0].text',
      block({ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text' }] }),
    ],
    [
      'messages[0].content[0].input',
      block({ type: 'tool_use', id: 'a', name: 'b', input: 'c' }, 'assistant'),
    ],
    ['messages[0].content[0].type', block({ type: 'tool_use', id: 'a', name: 'b', input: {} })],
    [
      'messages[0].content[0].type',
      block({ type: 'document', source: { type: 'url', url: 'https://a' } }, 'assistant'),
    ],
    ['system[0].text', { system: [{ type: 'text' }] }],
    [
      'tools[1].input_schema',
      {
        tools: [
          { type: 'x_1', name: 'x' },
          { name: 'a', input_schema: 1 },
        ],
      },
    ],
    ['tools[0].name', { tools: [{ name: 'a b', input_schema: {} }] }],
    ['tool_choice.name', { tool_choice: { type: 'tool' } }],
    ['tool_choice.type', { tool_choice: { type: 'some' } }],
    ['thinking.budget_tokens', { thinking: { type: 'enabled' } }],
    ['thinking.type', { thinking: { type: 'deep' } }],
    ['output_config.effort', { output_config: { effort: 'huge' } }],
    ['stop_sequences[0]', { stop_sequences: [1] }],
    ['provider.sort', { provider: { sort: 'beauty' } }],
    ['model', { model: undefined }],
  ];

  test.each(cases)('is rejected with the name of the field %s', async (param, more) => {
    const reply = await post(request('acme/open', more));
    expect(reply.status).toBe(400);
    expect(reply.json).toMatchObject({
      type: 'error',
      error: { type: 'invalid_request_error' },
      request_id: reply.requestId,
    });
    expect(reply.error.message).toStartWith(param);
    expect(reply.headers.get('x-should-retry')).toBe('false');
    expect(sdk.upstream.requests).toHaveLength(0);
    expect(await sdk.gateway.record(reply.requestId)).toMatchObject({
      charges: { modelCharge: 0 },
      error: 'invalid_request_error',
    });
  });
});

describe.each(modelsByDialect)(
  'an answer from $dialect for a Messages client',
  ({ model, upstreamModel }) => {
    test('is charged for the token classes that the provider counted', async () => {
      const usage = { prompt: 40, completion: 9 };
      sdk.upstream.script(upstreamModel, chatAnswer('Fine', { usage, cachedTokens: 15 }));
      const { seen, requestId } = await stream(request(model));
      expect(seen.usage).toMatchObject({
        input_tokens: 25,
        cache_read_input_tokens: 15,
        output_tokens: 9,
      });
      // 1 credit per input token, cached or not, and 2 per output token.
      expect((await sdk.gateway.record(requestId)).charges.modelCharge).toBe(40 + 18);
    });

    test('has estimated usage if the provider reports none', async () => {
      sdk.upstream.script(upstreamModel, withoutUsage(chatAnswer('12345678')));
      const { seen, requestId } = await stream(request(model));
      const record = await sdk.gateway.record(requestId);
      expect(record.usageEstimated).toBe(true);
      expect(seen.usage).toMatchObject({
        input_tokens: record.usage.inputTokens,
        output_tokens: 2,
      });
    });

    test('ends with an error if it is interrupted, and only its text is charged', async () => {
      sdk.upstream.script(upstreamModel, cutMidStream(8, 'end-of-body', chatAnswer(words(100))));
      const { seen, requestId } = await stream(request(model));
      expect(seen).toMatchObject({ ended: 'error', error: { type: 'api_error' } });
      expect(seen.text).toStartWith('w1 w2');
      const { usage, status } = await sdk.gateway.record(requestId);
      expect(status).toBe('error');
      expect(usage.outputTokens).toBe(Math.max(1, Math.floor(seen.text.length / 4)));
    });

    test('is charged up to the point where the client disconnects', async () => {
      const long = chatAnswer(words(400));
      sdk.upstream.script(upstreamModel, gated('never', 300, long));
      const client = new AbortController();
      const response = await sdk.gateway.fetch(
        { ...request(model), stream: true },
        { path, signal: client.signal },
      );
      const reader = new SlowReader(response);
      await reader.readUntil('w250');
      client.abort();
      await sdk.upstream.until((requests) =>
        requests.find((entry) => entry.outcome === 'client-disconnected'),
      );
      const requestId = response.headers.get('x-request-id') ?? '';
      const { usage, cancelled } = await sdk.gateway.record(requestId);
      expect(cancelled).toBe(true);
      // 250 words have about 1,100 characters. The provider's first report has the placeholder 1.
      expect(usage.outputTokens).toBeWithin(200, 500);
    });

    test('comes from the next model of the chain if the first one fails', async () => {
      sdk.upstream.script('open-fp8', status500());
      sdk.upstream.script('claude-x', status500());
      sdk.upstream.script(upstreamModel, chatAnswer('From the fallback.'));
      const others = modelsByDialect
        .filter((other) => other.model !== model)
        .map((other) => other.model);
      const { seen } = await stream(request(others[0] ?? '', { models: [model] }));
      expect(seen).toMatchObject({ ended: 'complete', model, text: 'From the fallback.' });
    });
  },
);

describe('count_tokens', () => {
  const count = (body: unknown) =>
    sdk.gateway.post(body, { path: `${path}/count_tokens?beta=true` });

  test('accepts a Claude Code request without max_tokens', async () => {
    const { max_tokens: _, ...rest } = claudeCodeRequest('acme/open');
    const reply = await count(rest);
    expect(Object.keys(reply.json)).toEqual(['input_tokens']);
    expect(reply.json.input_tokens).toBeWithin(200, 500);
    expect(sdk.upstream.requests).toHaveLength(0);
  });

  test('is free and validates the body', async () => {
    const balance = async () => (await sdk.gateway.get('/v1/customer/credits')).text;
    const before = await balance();
    expect((await count({ model: 'acme/open', messages: hello })).status).toBe(200);
    expect(await balance()).toBe(before);
    const reply = await count({ model: 'acme/open', messages: [{ role: 'user', content: [{}] }] });
    expect(reply.status).toBe(400);
    expect(reply.error.message).toStartWith('messages[0].content[0].type');
  });
});

test.each([
  '/v1/messages',
  '/messages',
  '/v1/v1/messages',
  '/anthropic/v1/messages',
  '/anthropic/messages',
  '/v1/anthropic/v1/messages?beta=true',
  '/v1/anthropic/messages/',
])('%s is the Messages endpoint', async (alternativePath) => {
  const reply = await sdk.gateway.post(request('acme/open'), { path: alternativePath });
  expect(reply.json).toMatchObject({ type: 'message', model: 'acme/open' });
});
