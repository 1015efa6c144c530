/**
 * Bedrock behind a running gateway: streams and non-streaming answers for every client, their
 * charges, and broken streams.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { eventBytesMax } from '../../src/core/bounds.ts';
import { isObject } from '../../src/core/json.ts';
import { eventFrame } from '../support/fake-upstream/frames.ts';
import {
  callTools,
  chatAnswer,
  cutMidStream,
  errorInside200,
  json,
  malformedSse,
  replay,
  slowDrip,
  startFakeUpstream,
  truncatedJson,
  unfinishedCharacter,
  withoutDone,
  words,
} from '../support/fake-upstream.ts';
import { chatModel, contentOf, InProcessGateway } from '../support/in-process.ts';
import { readStreamText } from '../support/sse-client.ts';
import { checkAnthropicStream, checkResponsesStream } from '../support/stream-checks.ts';
import { readBytes } from '../support/upstream-conformance.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
const modelId = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0';
const modelPath = `/model/${encodeURIComponent(modelId)}`;
/** Prices in dollars per million tokens, which are credits per token. */
const pricing = { prompt: '2', completion: '12', cache_read: '1', cache_write: '3' };

beforeAll(async () => {
  const { url } = upstream;
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      aws: { dialect: 'bedrock', base_url: url, api_key: 'bedrock-api-key-0123456789' },
      other: { dialect: 'openai', base_url: `${url}/v1`, api_key: 'other-key' },
    },
    models: [
      chatModel('acme/claude', [{ provider: 'aws', model: modelId, pricing }], {
        thinking: 'budget',
      }),
      chatModel('acme/both', [
        { provider: 'aws', model: modelId, priority: 0 },
        { provider: 'other', model: 'other-up', priority: 1 },
      ]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

let turn = 0;
beforeEach(() => {
  upstream.reset();
  turn += 1;
});

/** Returns a request whose question differs in each test, so that tests share no cache entries. */
const request = (fields: object = {}) => ({
  model: 'acme/claude',
  messages: [{ role: 'user', content: `Question ${turn}` }],
  ...fields,
});
const anthropic = { path: '/v1/anthropic/messages' };
const responses = { path: '/v1/responses' };
const frames = { contentType: 'application/vnd.amazon.eventstream' };

function lastRequest() {
  const entry = upstream.requests.at(-1);
  if (!entry || !isObject(entry.json))
    throw new Error('The upstream received no readable request.');
  return { path: entry.path, headers: entry.headers, body: entry.json, tokens: entry.tokens };
}

/** Returns the charge for the last answer, computed from the upstream's token counts. */
function price(): number {
  const { prompt, completion } = lastRequest().tokens;
  return prompt * 2 + completion * 12;
}

describe('a Bedrock stream', () => {
  test("reaches an OpenAI client and is charged according to the upstream's counts", async () => {
    upstream.script(modelId, chatAnswer(words(40), { reasoning: 'Let me see.' }));
    const answer = await gateway.stream(request({ stream_options: { include_usage: true } }));
    expect([answer.content, answer.finishReasons, answer.doneCount]).toEqual([
      words(40),
      ['stop'],
      1,
    ]);
    expect(lastRequest()).toMatchObject({
      path: `${modelPath}/converse-stream`,
      headers: { authorization: 'Bearer bedrock-api-key-0123456789' },
      body: { messages: [{ role: 'user', content: [{ text: `Question ${turn}` }] }] },
      tokens: { prompt: 2, completion: 43 },
    });
    expect(answer.usage).toMatchObject({
      prompt_tokens: 2,
      completion_tokens: 43,
      cost: price(),
    });
    expect((await gateway.record(answer.requestId)).charges.modelCharge).toBe(price());
  });

  test('reaches an Anthropic client byte by byte, with thinking and calls', async () => {
    const tools = [
      { name: 'weather', arguments: { city: 'Oslo' } },
      { name: 'time', arguments: {} },
    ];
    const behavior = callTools(tools, { text: 'Looking.', reasoning: 'Hm, rain.' });
    upstream.script(modelId, slowDrip(1, 0, behavior));
    const response = await gateway.fetch(
      request({
        max_tokens: 4_000,
        stream: true,
        thinking: { type: 'enabled', budget_tokens: 1_024 },
        tools: tools.map(({ name }) => ({ name, input_schema: { type: 'object' } })),
      }),
      anthropic,
    );
    const seen = checkAnthropicStream(await response.text());
    expect(seen).toMatchObject({
      ended: 'complete',
      text: 'Looking.',
      thinking: 'Hm, rain.',
      stopReason: 'tool_use',
    });
    expect(seen.signatures).toEqual(['ZmFrZS1zaWduYXR1cmU=']);
    expect(seen.tools.map(({ name, input }) => [name, input])).toEqual([
      ['weather', { city: 'Oslo' }],
      ['time', {}],
    ]);
    expect(lastRequest().body.additionalModelRequestFields).toEqual({
      thinking: { type: 'enabled', budget_tokens: 1_024 },
    });
  });

  test('reaches a Responses client', async () => {
    upstream.script(modelId, chatAnswer('Hello there.'));
    const response = await gateway.fetch(
      { model: 'acme/claude', input: `Question ${turn}`, stream: true },
      responses,
    );
    const seen = checkResponsesStream(await response.text());
    expect(seen).toMatchObject({ ended: 'complete', text: 'Hello there.' });
    const requestId = response.headers.get('x-request-id') ?? '';
    expect((await gateway.record(requestId)).charges.modelCharge).toBe(price());
  });

  test('is charged by token class if the prompt is cached', async () => {
    const recorded = readBytes('bedrock/written-stream-cache.bin');
    upstream.script(modelId, replay(recorded, { ...frames, piece: 100 }));
    const answer = await gateway.stream(request());
    expect(answer.content).toBe('As the manual says.');
    // 12 input tokens at 2 credits, 1,500 cache reads at 1, 3,100 cache writes at 3, 6 output at
    // 12.
    expect((await gateway.record(answer.requestId)).charges.modelCharge).toBe(10_896);
  });

  test('is replayed from the cache for free, as a stream and as a complete response', async () => {
    upstream.script(modelId, chatAnswer('Cached.'));
    const question = request({ temperature: 0 });
    const first = await gateway.stream(question);
    const again = await gateway.stream(question);
    const reply = await gateway.post(question);
    expect([first.content, again.content, contentOf(reply)]).toEqual([
      ...['Cached.', 'Cached.', 'Cached.'],
    ]);
    expect(reply.headers.get('x-cache')).toBe('HIT');
    expect(upstream.requests).toHaveLength(1);
    expect((await gateway.record(again.requestId)).charges.modelCharge).toBe(0);
  });

  test('is complete even without usage, which is then estimated', async () => {
    upstream.script(modelId, withoutDone(chatAnswer(words(40))));
    const answer = await gateway.stream(request());
    expect([answer.content, answer.finishReasons, answer.doneCount]).toEqual([
      words(40),
      ['stop'],
      1,
    ]);
    expect((await gateway.record(answer.requestId)).charges.modelCharge).toBeGreaterThan(0);
  });
});

describe('a Bedrock stream that breaks after its first text', () => {
  const behavior = chatAnswer(words(20));
  test.each([
    ['ends between two frames', cutMidStream(6, 'end-of-body', behavior), 'was interrupted'],
    ['ends inside a frame', truncatedJson(700, behavior), 'was interrupted'],
    [
      'has a frame with a wrong checksum',
      unfinishedCharacter(6, behavior),
      'sent an invalid response',
    ],
    ['has a frame with invalid JSON', malformedSse(6, behavior), 'sent an invalid response'],
    ['has an exception', errorInside200(6, 'data', behavior), 'The server is overloaded'],
  ])('ends with an error for each client if it %s', async (_, brokenBehavior, message) => {
    upstream.script(modelId, brokenBehavior);
    const answer = await gateway.stream(request());
    expect([answer.content.startsWith('w1 w2'), answer.doneCount]).toEqual([true, 0]);
    expect(answer.finishReasons).toEqual([]);
    expect(answer.error?.message).toContain(message);
    // The charge for the received text is estimated, because the upstream reported no counts.
    const { modelCharge } = (await gateway.record(answer.requestId)).charges;
    expect(modelCharge).toBeGreaterThan(0);
    const response = await gateway.fetch(request({ stream: true, max_tokens: 99 }), anthropic);
    expect(checkAnthropicStream(await readStreamText(response)).ended).toBe('error');
  });
});

describe('a Bedrock stream that breaks before its first text', () => {
  const opening = eventFrame('messageStart', { role: 'assistant' });
  const huge = Buffer.alloc(16);
  huge.writeUInt32BE(eventBytesMax + 1, 0);
  huge.writeUInt32BE(Bun.hash.crc32(huge.subarray(0, 8)), 8);
  const wrongChecksum = Buffer.from(opening);
  wrongChecksum.writeUInt8(0, wrongChecksum.length - 1);
  test.each([
    ['an exception', readBytes('bedrock/written-stream-throttled.bin')],
    ['a wrong checksum', wrongChecksum],
    ['a frame that is too large', Buffer.concat([opening, huge])],
    ['text instead of frames', Buffer.from('data: {"choices":[]}\n\n')],
    ['half a frame', opening.subarray(0, 40)],
    ['nothing at all', Buffer.alloc(0)],
  ])('falls back to the next provider after %s', async (_, bytes) => {
    upstream.script(modelId, replay(bytes, frames));
    upstream.script('other-up', chatAnswer('Here I am.'));
    const answer = await gateway.stream(request({ model: 'acme/both' }));
    expect([answer.content, answer.finishReasons]).toEqual(['Here I am.', ['stop']]);
  });

  test('returns 502 free of charge if there is no other provider', async () => {
    upstream.script(modelId, replay(wrongChecksum, frames));
    const reply = await gateway.post(request({ stream: true }));
    expect(reply.status).toBe(502);
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  });
});

describe('a non-streaming Bedrock answer', () => {
  test("reaches every client and is charged according to the upstream's counts", async () => {
    upstream.script(modelId, callTools([{ name: 'weather', arguments: { city: 'Oslo' } }]));
    const chat = await gateway.post(request());
    expect(lastRequest().path).toBe(`${modelPath}/converse`);
    expect(chat.json).toMatchObject({
      choices: [
        { finish_reason: 'tool_calls', message: { tool_calls: [{ id: 'tooluse_fake_0' }] } },
      ],
      usage: { cost: price() },
    });
    const message = await gateway.post(request({ max_tokens: 99 }), anthropic);
    expect(message.json).toMatchObject({
      stop_reason: 'tool_use',
      content: [{ type: 'tool_use', name: 'weather', input: { city: 'Oslo' } }],
    });
    expect((await gateway.record(message.requestId)).charges.modelCharge).toBe(price());
    const response = await gateway.post({ model: 'acme/claude', input: 'Rain?' }, responses);
    expect(response.json).toMatchObject({
      status: 'completed',
      output: [{ type: 'function_call', name: 'weather', arguments: '{"city":"Oslo"}' }],
    });
    expect((await gateway.record(response.requestId)).charges.modelCharge).toBe(price());
  });

  test('is free if a guardrail blocked the prompt before the model', async () => {
    const message = { role: 'assistant', content: [{ text: 'This is blocked.' }] };
    const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0 };
    const body = { output: { message }, stopReason: 'guardrail_intervened', usage };
    upstream.script(modelId, json(200, body));
    const reply = await gateway.post(request());
    expect(reply.json).toMatchObject({
      choices: [{ finish_reason: 'content_filter', message: { content: 'This is blocked.' } }],
      usage: { prompt_tokens: 0, completion_tokens: 0, cost: 0 },
    });
    const { charges, usageEstimated } = await gateway.record(reply.requestId);
    expect([charges.modelCharge, usageEstimated]).toEqual([0, false]);
  });

  test('is streamed if the client requested a stream', async () => {
    upstream.script(modelId, replay(readBytes('bedrock/converse-text.json')));
    const answer = await gateway.stream(request());
    expect(answer.content).toStartWith('Hello! How can I assist you today?');
    expect([answer.finishReasons, answer.doneCount]).toEqual([['stop'], 1]);
  });
});

describe('a Bedrock error', () => {
  const errorType = (name: string) => ({
    'x-amzn-errortype': `${name}:http://internal.amazon.com/`,
  });

  test.each([
    ['application/json', false],
    // Errors are JSON even if the content type of the answer says that it has frames.
    ['application/vnd.amazon.eventstream', true],
  ])('for an invalid request is passed on free of charge: %s', async (type, stream) => {
    const body = JSON.parse(readBytes('bedrock/error-400-context.json').toString()) as unknown;
    const headers = { ...errorType('ValidationException'), 'content-type': type };
    upstream.script(modelId, json(400, body, headers));
    const reply = await gateway.post(request({ stream }));
    expect(reply.status).toBe(400);
    expect(reply.error.message).toContain('Number of input tokens exceeds maximum length');
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  });

  test.each([
    [429, 'ThrottlingException'],
    [403, 'AccessDeniedException'],
    [400, 'ServiceQuotaExceededException'],
    [424, 'ModelErrorException'],
  ])('%d %s falls back to the next provider', async (status, name) => {
    upstream.script(modelId, json(status, { message: 'Not now.' }, errorType(name)));
    upstream.script('other-up', chatAnswer('Here I am.'));
    const reply = await gateway.post(request({ model: 'acme/both' }));
    expect(contentOf(reply)).toBe('Here I am.');
  });

  test.each([
    ['http://pictures.invalid/cat.png', "The image can't be fetched"],
    ['data:image/tiff;base64,SUkq', 'This model accepts only PNG, JPEG, GIF, and WebP images.'],
  ])('for the image %s is free, and nothing is sent upstream', async (url, message) => {
    const content = [{ type: 'image_url', image_url: { url } }];
    const reply = await gateway.post(request({ messages: [{ role: 'user', content }] }));
    expect(reply.status).toBe(400);
    expect(reply.error.message).toStartWith(message);
    expect(upstream.requests).toHaveLength(0);
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  });
});
