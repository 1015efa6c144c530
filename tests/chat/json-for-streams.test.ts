/**
 * Upstreams that answer a stream request with one JSON body, as many self-hosted servers do, or
 * with a stream whose only chunk is that body. Every client still receives a stream and is charged
 * for the usage in the body.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import {
  callTools,
  chatAnswer,
  json,
  jsonForStream,
  replay,
  startFakeUpstream,
  truncatedJson,
} from '../support/fake-upstream.ts';
import { chatModel, contentOf, InProcessGateway } from '../support/in-process.ts';
import {
  answerRound,
  chat as searching,
  searchRound,
  startSearchGateway,
} from '../support/search-gateway.ts';
import {
  checkAnthropicStream,
  checkOpenAiStream,
  checkResponsesStream,
} from '../support/stream-checks.ts';
import { readFixture } from '../support/upstream-conformance.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** $1 is 1,000,000 credits, so prices per million tokens are also credits per token. */
const pricing = { prompt: '2', completion: '12' };

beforeAll(async () => {
  const { url } = upstream;
  const at = (dialect: string, path = '/v1') => ({ dialect, base_url: url + path, api_key: 'key' });
  const model = (name: string, ...providers: string[]) =>
    chatModel(
      `acme/${name}`,
      providers.map((provider, priority) => ({
        provider,
        model: `${provider}-up`,
        pricing,
        priority,
      })),
    );
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      openai: at('openai'),
      anthropic: at('anthropic'),
      gemini: at('gemini', '/v1beta'),
      responses: at('openai-responses'),
    },
    models: [
      ...['openai', 'anthropic', 'gemini', 'responses'].map((name) => model(name, name)),
      model('both', 'openai', 'anthropic'),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

/** The same answer in each upstream format. 10 input and 5 output tokens cost 80 credits. */
const answers = {
  openai: {
    id: 'chatcmpl-theirs',
    object: 'chat.completion',
    model: 'their-model',
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: 'Let me look.',
          tool_calls: [
            {
              id: 'call_1',
              type: 'function',
              function: { name: 'weather', arguments: '{"city":"Oslo"}' },
            },
          ],
        },
        finish_reason: 'tool_calls',
      },
    ],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
  },
  anthropic: {
    id: 'msg_theirs',
    type: 'message',
    role: 'assistant',
    model: 'their-model',
    content: [
      { type: 'text', text: 'Let me look.' },
      { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Oslo' } },
    ],
    stop_reason: 'tool_use',
    stop_sequence: null,
    usage: { input_tokens: 10, output_tokens: 5 },
  },
  gemini: {
    candidates: [
      {
        content: {
          role: 'model',
          parts: [
            { text: 'Let me look.' },
            { functionCall: { name: 'weather', args: { city: 'Oslo' } } },
          ],
        },
        finishReason: 'STOP',
      },
    ],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
    modelVersion: 'their-model',
  },
  responses: {
    id: 'resp_theirs',
    object: 'response',
    status: 'completed',
    model: 'their-model',
    output: [
      {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'Let me look.', annotations: [] }],
      },
      {
        id: 'fc_1',
        type: 'function_call',
        call_id: 'call_1',
        name: 'weather',
        arguments: '{"city":"Oslo"}',
        status: 'completed',
      },
    ],
    usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
  },
};

const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const question = { role: 'user', content: 'What is the weather?' };

const eventStream = { contentType: 'text/event-stream' };
const inOneChunk = `data: ${JSON.stringify(answers.openai)}\n\ndata: [DONE]\n\n`;
const variants = [
  ...Object.entries(answers).map(
    ([name, body]) => [name, 'one JSON body', json(200, body)] as const,
  ),
  ['openai', 'one chunk', replay(inOneChunk, eventStream)] as const,
];

describe.each(variants)('a non-streaming answer from %s, sent as %s,', (name, _, behavior) => {
  const model = `acme/${name}`;
  const play = () => upstream.script(`${name}-up`, behavior);

  async function billOf(requestId: string) {
    const { charges, usage, ...row } = await gateway.record(requestId);
    return { ...row, ...usage, credits: charges.modelCharge };
  }
  const bill = {
    inputTokens: 10,
    outputTokens: 5,
    credits: 80,
    usageEstimated: false,
    status: 'success',
    streamed: true,
    finishReason: 'tool_calls',
  };

  test('becomes a stream of chat completion chunks', async () => {
    play();
    const reply = await gateway.post({
      model,
      messages: [question],
      tools: [{ type: 'function', function: { name: 'weather', parameters } }],
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(reply.status).toBe(200);
    expect(reply.headers.get('content-type')).toStartWith('text/event-stream');
    const seen = checkOpenAiStream(reply.text);
    expect(seen).toMatchObject({ ended: 'complete', model, text: 'Let me look.' });
    expect(seen).toMatchObject({ finishReason: 'tool_calls', usage: { cost: 80 } });
    expect(seen.tools).toMatchObject([{ name: 'weather', json: '{"city":"Oslo"}' }]);
    expect(reply.text).not.toMatch(/theirs|their-model/);
    expect(await billOf(reply.requestId)).toMatchObject(bill);
  });

  test('becomes a stream of Messages events', async () => {
    play();
    const tools = [{ name: 'weather', input_schema: parameters }];
    const reply = await gateway.post(
      { model, max_tokens: 100, messages: [question], tools, stream: true },
      { path: '/v1/messages' },
    );
    const seen = checkAnthropicStream(reply.text);
    expect(seen).toMatchObject({ ended: 'complete', text: 'Let me look.', stopReason: 'tool_use' });
    expect(seen.tools).toMatchObject([{ name: 'weather', input: { city: 'Oslo' } }]);
    expect(seen.usage).toMatchObject({ input_tokens: 10, output_tokens: 5 });
    expect(await billOf(reply.requestId)).toMatchObject(bill);
  });

  test('becomes a stream of Responses events', async () => {
    play();
    const tools = [{ type: 'function', name: 'weather', parameters }];
    const reply = await gateway.post(
      { model, input: [question], tools, stream: true },
      { path: '/v1/responses' },
    );
    const seen = checkResponsesStream(reply.text);
    expect(seen).toMatchObject({ ended: 'complete', status: 'completed', text: 'Let me look.' });
    expect(seen.tools).toMatchObject([{ name: 'weather', input: '{"city":"Oslo"}' }]);
    expect(seen.usage).toMatchObject({ input_tokens: 10, output_tokens: 5 });
    expect(await billOf(reply.requestId)).toMatchObject(bill);
  });
});

describe('recorded non-streaming answers', () => {
  const names = { openai: 'openai', anthropic: 'anthropic', gemini: 'gemini' };
  const providers = { ...names, 'openai-responses': 'responses' };
  type Recorded = { kind: string; dialect: keyof typeof providers };
  const recorded = Object.entries(
    JSON.parse(readFixture('expect.json')) as Record<string, Recorded>,
  ).filter(([file, { kind, dialect }]) => {
    return kind === 'chat' && file.endsWith('.json') && dialect in providers;
  });
  const clients = [
    ['/v1/chat/completions', { messages: [question] }, checkOpenAiStream],
    ['/v1/messages', { messages: [question], max_tokens: 100 }, checkAnthropicStream],
    ['/v1/responses', { input: [question] }, checkResponsesStream],
  ] as const;

  test('exist in the fixtures', () => expect(recorded.length).toBeGreaterThan(40));

  test.each(recorded)(
    'become streams for every client at the same price: %s',
    async (file, recording) => {
      const name = providers[recording.dialect];
      upstream.script(`${name}-up`, replay(readFixture(file)));
      for (const [path, body, check] of clients) {
        const request = { model: `acme/${name}`, ...body };
        const complete = await gateway.record((await gateway.post(request, { path })).requestId);
        const reply = await gateway.post({ ...request, stream: true }, { path });
        const streamed = await gateway.record(reply.requestId);
        expect(check(reply.text).ended).toBe('complete');
        expect(streamed.finishReason).toBe(complete.finishReason);
        expect(streamed.usageEstimated).toBe(complete.usageEstimated);
        // Estimates depend on the length of the request, and the two requests differ in length.
        if (!complete.usageEstimated) expect(streamed.usage).toEqual(complete.usage);
        if (!complete.usageEstimated) expect(streamed.charges).toEqual(complete.charges);
      }
    },
  );
});

describe('a non-streaming answer to a stream request', () => {
  const chat = { model: 'acme/both', messages: [question] };

  test('is charged for estimated usage if it reports none', async () => {
    const { usage: _, ...rest } = answers.openai;
    upstream.script('openai-up', json(200, rest));
    const stream = await gateway.stream(chat);
    expect(stream.doneCount).toBe(1);
    expect((await gateway.record(stream.requestId)).usageEstimated).toBe(true);
  });

  test('does not show reasoning if the client excludes it', async () => {
    const message = { role: 'assistant', content: 'Rain.', reasoning_content: 'Clouds, so...' };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    upstream.script('openai-up', json(200, { ...answers.openai, choices }));
    const shown = await gateway.stream(chat);
    expect(checkOpenAiStream(shown.text).reasoning).toBe('Clouds, so...');
    const hidden = await gateway.stream({ ...chat, reasoning: { exclude: true } });
    expect(hidden).toMatchObject({ content: 'Rain.', doneCount: 1 });
    expect(hidden.text).not.toContain('Clouds');
  });

  test('includes citations even if tool calls follow the text', async () => {
    const [choice] = answers.openai.choices;
    const source = { url: 'https://weather.example/oslo', title: 'Oslo' };
    const annotations = [{ type: 'url_citation', url_citation: source }];
    const message = { ...choice?.message, annotations };
    upstream.script(
      'openai-up',
      json(200, { ...answers.openai, choices: [{ ...choice, message }] }),
    );
    const request = { model: 'acme/openai', input: [question], stream: true };
    const { text } = await gateway.post(request, { path: '/v1/responses' });
    expect(text).toContain(source.url);
    expect(checkResponsesStream(text).tools).toHaveLength(1);
  });

  test('is accepted with any content type and in any pieces', async () => {
    const text = JSON.stringify(answers.openai);
    for (const contentType of [
      'application/json; charset=utf-8',
      'text/plain',
      'Application/JSON',
    ]) {
      upstream.script('openai-up', replay(text, { contentType, piece: 'byte by byte' }));
      expect(await gateway.stream(chat)).toMatchObject({ content: 'Let me look.', doneCount: 1 });
    }
  });

  test('is cached for streaming and non-streaming requests', async () => {
    upstream.script('openai-up', json(200, answers.openai));
    const repeatable = { ...chat, temperature: 0, user: 'cached' };
    expect(await gateway.stream(repeatable)).toMatchObject({
      content: 'Let me look.',
      doneCount: 1,
    });
    const again = await gateway.stream(repeatable);
    expect(again).toMatchObject({ content: 'Let me look.', doneCount: 1 });
    expect((await gateway.record(again.requestId)).cacheHit).toBe(true);
    expect(contentOf(await gateway.post(repeatable))).toBe('Let me look.');
    expect(upstream.requests).toHaveLength(1);
  });

  test('falls back to the next provider if it is cut off, empty, or an error', async () => {
    const text = JSON.stringify(answers.openai);
    const unusable = [
      truncatedJson(text.length - 2, replay(text)),
      json(200, { ...answers.openai, choices: [] }),
      json(200, { error: { message: 'Overloaded', code: 503 } }),
      json(200, { detail: 'Not Found' }),
      json(200, [answers.openai]),
    ];
    upstream.script('anthropic-up', chatAnswer('the other one'));
    for (const behavior of unusable) {
      upstream.script('openai-up', behavior);
      const stream = await gateway.stream(chat);
      expect(stream).toMatchObject({ content: 'the other one', doneCount: 1 });
      expect((await gateway.record(stream.requestId)).provider).toBe('anthropic');
    }
  });

  // A stream made from the answer would lack the log probabilities and all choices but the first.
  test.each([{ n: 2 }, { logprobs: true }])(
    'fails if the stream made from it could not include %j',
    async (more) => {
      upstream.script('openai-up', json(200, answers.openai));
      const reply = await gateway.post({ ...chat, ...more, model: 'acme/openai', stream: true });
      expect(reply.status).toBe(502);
      expect(reply.text).not.toContain('data:');
      const error = { message: 'too long', code: 'context_length_exceeded' };
      upstream.script('openai-up', json(200, { error }));
      const refused = await gateway.post({ ...chat, ...more, model: 'acme/openai', stream: true });
      expect([refused.status, refused.error.message]).toEqual([400, 'too long']);
    },
  );

  test('may request a web search, and the answer continues in another round', async () => {
    const search = await startSearchGateway();
    try {
      search.reset();
      const rounds = [searchRound('weather today'), answerRound('It rained [1].')];
      search.upstream.script('chat', rounds.map(jsonForStream));
      const stream = await search.gateway.stream(searching());
      expect(stream).toMatchObject({ content: 'It rained [1].', doneCount: 1 });
      // The rounds cost 100 + 2 × 10 and 300 + 2 × 20, plus 1 search.
      const bill = { model: 460, byok: 0, tool: 5_000, searches: 1 };
      expect(await search.bill(stream)).toEqual(bill);
    } finally {
      await search.stop();
    }
  });

  test('is billed like a real stream', async () => {
    const usage = { prompt: 40, completion: 7 };
    const streamed = callTools([{ name: 'weather', arguments: { city: 'Oslo' } }], { usage });
    const tools = [{ type: 'function', function: { name: 'weather', parameters } }];
    for (const behavior of [streamed, jsonForStream(streamed)]) {
      upstream.script('openai-up', behavior);
      const stream = await gateway.stream({ ...chat, model: 'acme/openai', tools });
      expect(stream.finishReasons).toEqual(['tool_calls']);
      // 40 × 2 + 7 × 12
      expect((await gateway.record(stream.requestId)).charges.modelCharge).toBe(164);
    }
  });
});
