/**
 * Gemini and OpenAI's Responses endpoint behind a running gateway: the requests they receive, the
 * answers that clients receive, and the charges.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { chatAnswer, json, replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { checkAnthropicStream } from '../support/stream-checks.ts';
import { readFixture } from '../support/upstream-conformance.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** Prices in dollars per million tokens, which are credits per token. */
const pricing = { prompt: '2', completion: '12' };

beforeAll(async () => {
  const { url } = upstream;
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      google: { dialect: 'gemini', base_url: `${url}/v1beta`, api_key: 'google-key' },
      other: { dialect: 'openai', base_url: `${url}/v1`, api_key: 'other-key' },
      answers: { dialect: 'openai-responses', base_url: `${url}/v1`, api_key: 'answers-key' },
    },
    models: [
      chatModel('acme/gemini', [{ provider: 'google', model: 'gem-up', pricing }], {
        thinking: 'effort',
      }),
      chatModel('acme/answers', [{ provider: 'answers', model: 'ans-up', pricing }], {
        thinking: 'effort',
      }),
      chatModel('acme/painter', [{ provider: 'google', model: 'paint-up', pricing }], {
        output_modalities: ['text', 'image'],
      }),
      chatModel(
        'acme/both',
        [
          { provider: 'google', model: 'gem-up', priority: 0 },
          { provider: 'other', model: 'other-up', priority: 1 },
        ],
        { thinking: 'effort' },
      ),
      chatModel(
        'acme/two-answers',
        [
          { provider: 'answers', model: 'ans-up', priority: 0 },
          { provider: 'other', model: 'other-up', priority: 1 },
        ],
        { thinking: 'effort' },
      ),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const eventStream = { contentType: 'text/event-stream' };
const tool = {
  type: 'function',
  function: {
    name: 'weather',
    parameters: { type: 'object', properties: { location: { type: 'string' } } },
  },
};
const question = { role: 'user', content: 'What is the weather?' };

function lastRequest() {
  const entry = upstream.requests.at(-1);
  if (!entry || !isObject(entry.json))
    throw new Error('The upstream received no readable request.');
  return { path: entry.path, headers: entry.headers, body: entry.json };
}

describe('Gemini', () => {
  const stream = () => readFixture('gemini/tool-stream-gemini3.sse');
  const [, signature] = /"thoughtSignature":"([^"]+)"/.exec(stream()) ?? [];

  test('reports at most 50 dropped parameters, known names first', async () => {
    upstream.script('gem-up', replay(readFixture('gemini/tool-signature-followup.json')));
    const unknownFields = Array.from({ length: 3_000 }, (_, i) => [`unknown_${i}`, 1] as const);
    const reply = await gateway.post({
      model: 'acme/gemini',
      messages: [question],
      ...Object.fromEntries(unknownFields),
      logprobs: true,
    });
    const dropped = reply.headers.get('x-tollgate-dropped-params')?.split(', ') ?? [];
    expect(dropped).toHaveLength(50);
    expect(dropped.slice(0, 2)).toEqual(['logprobs', 'unknown_0']);
  });

  test('receives requests in its own format, with its own key', async () => {
    upstream.script('gem-up', replay(readFixture('gemini/tool-signature-followup.json')));
    const reply = await gateway.post({
      model: 'acme/gemini',
      messages: [{ role: 'system', content: 'Be brief.' }, question],
      max_tokens: 50,
      logprobs: true,
      seed: 3,
    });
    expect(reply.status).toBe(200);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('logprobs');
    const { path, headers, body } = lastRequest();
    expect(path).toBe('/v1beta/models/gem-up:generateContent');
    expect(headers['x-goog-api-key']).toBe('google-key');
    expect(headers.authorization).toBeUndefined();
    expect(body).toEqual({
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      contents: [{ role: 'user', parts: [{ text: 'What is the weather?' }] }],
      generationConfig: { maxOutputTokens: 50, seed: 3 },
    });
  });

  test('streams a tool call with the exact charge and gets its signature back', async () => {
    upstream.script('gem-up', replay(stream(), { ...eventStream, piece: 'byte by byte' }));
    const body = { model: 'acme/gemini', messages: [question], tools: [tool] };
    const request = { ...body, stream_options: { include_usage: true } };
    const answer = await gateway.stream(request);
    expect(lastRequest().path).toBe('/v1beta/models/gem-up:streamGenerateContent?alt=sse');
    expect(answer.finishReasons).toEqual(['tool_calls']);
    expect(answer.doneCount).toBe(1);
    // 29 input tokens at 2 credits, 15 output and 45 reasoning tokens at 12.
    expect(answer.usage).toMatchObject({ prompt_tokens: 29, completion_tokens: 60, cost: 778 });
    expect((await gateway.record(answer.requestId)).charges.modelCharge).toBe(778);

    const deltas = answer.chunks.flatMap(({ choices }) =>
      Array.isArray(choices) ? choices.map((choice) => (choice as { delta: object }).delta) : [],
    );
    const call = deltas.flatMap((delta) => ('tool_calls' in delta ? delta.tool_calls : []))[0];
    const details = deltas.flatMap((delta) =>
      'reasoning_details' in delta ? delta.reasoning_details : [],
    );
    const { id } = call as { id: string };
    upstream.script('gem-up', replay(readFixture('gemini/tool-signature-followup.json')));
    const assistantMessage = {
      role: 'assistant',
      content: null,
      reasoning_details: details,
      tool_calls: [
        { id, type: 'function', function: { name: 'weather', arguments: '{"location":"Oslo"}' } },
      ],
    };
    const result = { role: 'tool', tool_call_id: id, content: 'rain' };
    const reply = await gateway.post({ ...body, messages: [question, assistantMessage, result] });
    expect(reply.status).toBe(200);
    expect(lastRequest().body.contents).toEqual([
      { role: 'user', parts: [{ text: 'What is the weather?' }] },
      {
        role: 'model',
        parts: [
          {
            functionCall: { id, name: 'weather', args: { location: 'Oslo' } },
            thoughtSignature: signature,
          },
        ],
      },
      {
        role: 'user',
        parts: [{ functionResponse: { id, name: 'weather', response: { output: 'rain' } } }],
      },
    ]);
  });

  test('answers an Anthropic client', async () => {
    upstream.script('gem-up', replay(stream(), { ...eventStream, piece: 'event by event' }));
    const response = await gateway.fetch(
      {
        model: 'acme/gemini',
        max_tokens: 100,
        stream: true,
        messages: [question],
        tools: [{ name: 'weather', input_schema: tool.function.parameters }],
      },
      { path: '/v1/anthropic/messages' },
    );
    const seen = checkAnthropicStream(await response.text());
    expect(seen).toMatchObject({ ended: 'complete', stopReason: 'tool_use' });
    expect(seen.tools.map(({ name, input }) => [name, input])).toEqual([
      ['weather', { location: 'San Francisco' }],
    ]);
    expect(seen.signatures).toEqual([`gemini:${signature}`]);
  });

  test('ends the stream to the client with an error if the upstream stream is cut off', async () => {
    const [first] = stream().split(/\r?\n\r?\n/);
    upstream.script('gem-up', replay(`${first}\n\n`, eventStream));
    const answer = await gateway.stream({ model: 'acme/gemini', messages: [question] });
    expect(answer.doneCount).toBe(0);
    expect(answer.finishReasons).toEqual([]);
    expect(answer.error).toMatchObject({
      message: "The provider's response was interrupted.",
      code: 502,
    });
  });

  test.each([
    ['a malformed call', { candidates: [{ finishReason: 'MALFORMED_FUNCTION_CALL' }] }],
    ['an error object', { error: { code: 503, message: 'Overloaded.', status: 'UNAVAILABLE' } }],
  ])('is replaced by the next provider after %s', async (_, chunk) => {
    upstream.script('gem-up', replay(`data: ${JSON.stringify(chunk)}\r\n\r\n`, eventStream));
    upstream.script('other-up', chatAnswer('Here I am.'));
    const answer = await gateway.stream({ model: 'acme/both', messages: [question] });
    expect(answer.content).toBe('Here I am.');
    expect(answer.finishReasons).toEqual(['stop']);
  });

  test('generates images if its model can', async () => {
    upstream.script('paint-up', replay(readFixture('gemini/image-output.json')));
    const reply = await gateway.post({ model: 'acme/painter', messages: [question] });
    expect(lastRequest().body.generationConfig).toMatchObject({
      responseModalities: ['TEXT', 'IMAGE'],
    });
    expect(JSON.stringify(reply.json.choices)).toContain('data:image/jpeg;base64,/9j/4AAQSkZJ');
    // 5 input tokens at 2 credits, 1,518 output tokens at 12.
    expect(reply.json.usage).toMatchObject({ cost: 18_226 });
  });

  test('reports a blocked prompt with the finish reason content_filter', async () => {
    upstream.script('gem-up', replay(readFixture('gemini/prompt-blocked.json')));
    const reply = await gateway.post({ model: 'acme/gemini', messages: [question] });
    expect(reply.status).toBe(200);
    expect(reply.json.choices).toMatchObject([{ finish_reason: 'content_filter' }]);
  });

  test('returns its own error message for an invalid request, free of charge', async () => {
    const body = readFixture('gemini/error-400-too-many-tokens-vertex.json');
    upstream.script('gem-up', replay(body, { status: 400 }));
    const reply = await gateway.post({ model: 'acme/gemini', messages: [question] });
    expect(reply.status).toBe(400);
    expect(reply.error.message).toContain('The input token count (1250074) exceeds');
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  });
});

describe('the Responses upstream', () => {
  test('receives requests in its own format and answers chat and Messages clients', async () => {
    upstream.script('ans-up', replay(readFixture('openai/responses-tool.json')));
    const reply = await gateway.post({
      model: 'acme/answers',
      messages: [question],
      tools: [tool],
      reasoning_effort: 'high',
      stop: ['END'],
    });
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('stop');
    // 57 input tokens at 2 credits, 18 output tokens at 12.
    expect(reply.json.usage).toMatchObject({ total_tokens: 75, cost: 330 });
    expect(reply.json.choices).toMatchObject([
      {
        finish_reason: 'tool_calls',
        message: { tool_calls: [{ id: 'call_TRB1jnZxAdUJcnUg2vJEBejG' }] },
      },
    ]);
    const { path, headers, body } = lastRequest();
    expect(path).toBe('/v1/responses');
    expect(headers.authorization).toBe('Bearer answers-key');
    expect(body).toMatchObject({
      model: 'ans-up',
      input: [{ role: 'user', content: [{ type: 'input_text', text: 'What is the weather?' }] }],
      tools: [{ type: 'function', name: 'weather', strict: false }],
      reasoning: { effort: 'high', summary: 'auto' },
      store: false,
      include: ['reasoning.encrypted_content'],
    });

    upstream.script('ans-up', replay(readFixture('openai/responses-tool-final.json')));
    const message = await gateway.post(
      { model: 'acme/answers', max_tokens: 100, messages: [question] },
      { path: '/v1/anthropic/messages' },
    );
    expect(message.json).toMatchObject({
      type: 'message',
      content: [
        { type: 'text', text: 'Berlin is currently **15°C** with winds around **10 km/h**.' },
      ],
      stop_reason: 'end_turn',
      usage: { input_tokens: 100, output_tokens: 20 },
    });
  });

  test('receives parameters that only OpenAI has, and that are dropped for Gemini', async () => {
    const options = { verbosity: 'low', prompt_cache_key: 'case-4711', safety_identifier: 'ann' };
    upstream.script('ans-up', replay(readFixture('openai/responses-tool-final.json')));
    const sent = await gateway.post({ model: 'acme/answers', messages: [question], ...options });
    expect(sent.headers.get('x-tollgate-dropped-params')).toBeNull();
    const { body } = lastRequest();
    expect(body).toMatchObject({ text: { verbosity: 'low' }, user: 'ann' });
    // The key is hashed per tenant, so that no tenant can guess another's cache.
    expect(body.prompt_cache_key).toMatch(/^[\w-]{43}$/);

    upstream.script('gem-up', replay(readFixture('gemini/tool-signature-followup.json')));
    const droppedReply = await gateway.post({
      model: 'acme/gemini',
      messages: [question],
      ...options,
    });
    expect(droppedReply.headers.get('x-tollgate-dropped-params')?.split(', ').toSorted()).toEqual([
      'prompt_cache_key',
      'user',
      'verbosity',
    ]);
  });

  test('is replaced by the next provider if it fails before the first text', async () => {
    const broken = readFixture('openai/responses-error-stream.sse');
    upstream.script('ans-up', replay(broken, { ...eventStream, piece: 'event by event' }));
    upstream.script('other-up', chatAnswer('Here I am.'));
    const answer = await gateway.stream({ model: 'acme/two-answers', messages: [question] });
    expect(answer.content).toBe('Here I am.');
    upstream.script('ans-up', json(200, { status: 'failed', error: { message: 'Sorry.' } }));
    const reply = await gateway.post({ model: 'acme/two-answers', messages: [question] });
    expect(reply.json.choices).toMatchObject([{ message: { content: 'Here I am.' } }]);
  });
});
