/**
 * Bedrock behind a running gateway: its binary streams and whole answers for clients of all kinds,
 * what they cost, and what becomes of those that break.
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
import { checkAnthropicStream, checkResponsesStream } from '../support/stream-checks.ts';
import { readBytes } from '../support/upstream-conformance.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
const modelId = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0';
const modelPath = `/model/${encodeURIComponent(modelId)}`;
/** A dollar is a million credits: so many credits for each token. */
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

/** Another question for each test, so that they do not answer each other's. */
const asked = (fields: object = {}) => ({
  model: 'acme/claude',
  messages: [{ role: 'user', content: `Question ${turn}` }],
  ...fields,
});
const anthropic = { path: '/v1/anthropic/messages' };
const responses = { path: '/v1/responses' };
const frames = { contentType: 'application/vnd.amazon.eventstream' };

function lastAsked() {
  const entry = upstream.requests.at(-1);
  if (!entry || !isObject(entry.json)) throw new Error('The upstream was asked nothing readable.');
  return { path: entry.path, headers: entry.headers, body: entry.json, tokens: entry.tokens };
}

/** What the upstream's own book says that the last answer costs. */
function price(): number {
  const { prompt, completion } = lastAsked().tokens;
  return prompt * 2 + completion * 12;
}

describe('a stream', () => {
  test('reaches an OpenAI client, and is paid by the upstream’s own book', async () => {
    upstream.script(modelId, chatAnswer(words(40), { reasoning: 'Let me see.' }));
    const heard = await gateway.stream(asked({ stream_options: { include_usage: true } }));
    expect([heard.content, heard.finishReasons, heard.dones]).toEqual([words(40), ['stop'], 1]);
    expect(lastAsked()).toMatchObject({
      path: `${modelPath}/converse-stream`,
      headers: { authorization: 'Bearer bedrock-api-key-0123456789' },
      body: { messages: [{ role: 'user', content: [{ text: `Question ${turn}` }] }] },
      tokens: { prompt: 2, completion: 43 },
    });
    expect(heard.usage).toMatchObject({
      prompt_tokens: 2,
      completion_tokens: 43,
      cost: price(),
    });
    expect((await gateway.record(heard.requestId)).charges.modelCharge).toBe(price());
  });

  test('in single bytes reaches an Anthropic client with its thoughts and calls', async () => {
    const tools = [
      { name: 'weather', arguments: { city: 'Oslo' } },
      { name: 'time', arguments: {} },
    ];
    const answer = callTools(tools, { text: 'Looking.', reasoning: 'Hm, rain.' });
    upstream.script(modelId, slowDrip(1, 0, answer));
    const response = await gateway.fetch(
      asked({
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
    expect(lastAsked().body.additionalModelRequestFields).toEqual({
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

  test('with a cached prompt is paid by its classes', async () => {
    const recorded = readBytes('bedrock/written-stream-cache.bin');
    upstream.script(modelId, replay(recorded, { ...frames, piece: 100 }));
    const heard = await gateway.stream(asked());
    expect(heard.content).toBe('As the manual says.');
    // 12 in at 2 credits, 1,500 read at 1, 3,100 written at 3, 6 out at 12.
    expect((await gateway.record(heard.requestId)).charges.modelCharge).toBe(10_896);
  });

  test('is given again from the cache, streamed and whole, for nothing', async () => {
    upstream.script(modelId, chatAnswer('Kept in mind.'));
    const question = asked({ temperature: 0 });
    const first = await gateway.stream(question);
    const again = await gateway.stream(question);
    const whole = await gateway.post(question);
    expect([first.content, again.content, contentOf(whole)]).toEqual([
      ...['Kept in mind.', 'Kept in mind.', 'Kept in mind.'],
    ]);
    expect(whole.headers.get('x-cache')).toBe('HIT');
    expect(upstream.requests).toHaveLength(1);
    expect((await gateway.record(again.requestId)).charges.modelCharge).toBe(0);
  });

  test('that ends without its usage is whole, and what it used is estimated', async () => {
    upstream.script(modelId, withoutDone(chatAnswer(words(40))));
    const heard = await gateway.stream(asked());
    expect([heard.content, heard.finishReasons, heard.dones]).toEqual([words(40), ['stop'], 1]);
    expect((await gateway.record(heard.requestId)).charges.modelCharge).toBeGreaterThan(0);
  });
});

describe('a stream that breaks after its first words', () => {
  const answer = chatAnswer(words(20));
  test.each([
    ['is cut between two frames', cutMidStream(6, 'end-of-body', answer), 'was interrupted'],
    ['is cut inside a frame', truncatedJson(700, answer), 'was interrupted'],
    [
      'has a frame whose checksum is wrong',
      unfinishedCharacter(6, answer),
      'sent an invalid answer',
    ],
    ['has a frame that is no JSON', malformedSse(6, answer), 'sent an invalid answer'],
    ['has an exception', errorInside200(6, 'data', answer), 'The server is overloaded'],
  ])('%s is an error to each client, never an answer', async (_, behavior, why) => {
    upstream.script(modelId, behavior);
    const heard = await gateway.stream(asked());
    expect([heard.content.startsWith('w1 w2'), heard.dones]).toEqual([true, 0]);
    expect(heard.finishReasons).toEqual(['error']);
    expect(heard.error?.message).toContain(why);
    // What was heard is paid, by an estimate: the upstream has not counted.
    const { modelCharge } = (await gateway.record(heard.requestId)).charges;
    expect(modelCharge).toBeGreaterThan(0);
    const message = await gateway.fetch(asked({ stream: true, max_tokens: 99 }), anthropic);
    expect(checkAnthropicStream(await message.text()).ended).toBe('error');
  });
});

describe('a stream that breaks before its first word is followed by the next provider:', () => {
  const opening = eventFrame('messageStart', { role: 'assistant' });
  const huge = Buffer.alloc(16);
  huge.writeUInt32BE(eventBytesMax + 1, 0);
  huge.writeUInt32BE(Bun.hash.crc32(huge.subarray(0, 8)), 8);
  const wrong = Buffer.from(opening);
  wrong.writeUInt8(0, wrong.length - 1);
  test.each([
    ['an exception', readBytes('bedrock/written-stream-throttled.bin')],
    ['a wrong checksum', wrong],
    ['a frame too large', Buffer.concat([opening, huge])],
    ['text instead of frames', Buffer.from('data: {"choices":[]}\n\n')],
    ['half a frame', opening.subarray(0, 40)],
    ['nothing at all', Buffer.alloc(0)],
  ])('%s', async (_, bytes) => {
    upstream.script(modelId, replay(bytes, frames));
    upstream.script('other-up', chatAnswer('Here I am.'));
    const heard = await gateway.stream(asked({ model: 'acme/both' }));
    expect([heard.content, heard.finishReasons]).toEqual(['Here I am.', ['stop']]);
  });

  test('and without one it is the provider’s fault, and free', async () => {
    upstream.script(modelId, replay(wrong, frames));
    const reply = await gateway.post(asked({ stream: true }));
    expect(reply.status).toBe(502);
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  });
});

describe('a whole answer', () => {
  test('reaches clients of all kinds, each at the price in the book', async () => {
    upstream.script(modelId, callTools([{ name: 'weather', arguments: { city: 'Oslo' } }]));
    const chat = await gateway.post(asked());
    expect(lastAsked().path).toBe(`${modelPath}/converse`);
    expect(chat.json).toMatchObject({
      choices: [
        { finish_reason: 'tool_calls', message: { tool_calls: [{ id: 'tooluse_fake_0' }] } },
      ],
      usage: { cost: price() },
    });
    const message = await gateway.post(asked({ max_tokens: 99 }), anthropic);
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

  test('of a guardrail that let no model see the prompt is free', async () => {
    const message = { role: 'assistant', content: [{ text: 'This is blocked.' }] };
    const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0 };
    const body = { output: { message }, stopReason: 'guardrail_intervened', usage };
    upstream.script(modelId, json(200, body));
    const reply = await gateway.post(asked());
    expect(reply.json).toMatchObject({
      choices: [{ finish_reason: 'content_filter', message: { content: 'This is blocked.' } }],
      usage: { prompt_tokens: 0, completion_tokens: 0, cost: 0 },
    });
    const { charges, usageEstimated } = await gateway.record(reply.requestId);
    expect([charges.modelCharge, usageEstimated]).toEqual([0, false]);
  });

  test('where a stream was asked for is streamed', async () => {
    upstream.script(modelId, replay(readBytes('bedrock/converse-text.json')));
    const heard = await gateway.stream(asked());
    expect(heard.content).toStartWith('Hello! How can I assist you today?');
    expect([heard.finishReasons, heard.dones]).toEqual([['stop'], 1]);
  });
});

describe('a refusal', () => {
  const errorType = (name: string) => ({
    'x-amzn-errortype': `${name}:http://internal.amazon.com/`,
  });

  test.each([
    ['application/json', false],
    // What a refusal says is JSON also where frames were asked for.
    ['application/vnd.amazon.eventstream', true],
  ])('of the request is quoted, and free: %s', async (type, stream) => {
    const body = JSON.parse(readBytes('bedrock/error-400-context.json').toString()) as unknown;
    const headers = { ...errorType('ValidationException'), 'content-type': type };
    upstream.script(modelId, json(400, body, headers));
    const reply = await gateway.post(asked({ stream }));
    expect(reply.status).toBe(400);
    expect(reply.error.message).toContain('Number of input tokens exceeds maximum length');
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  });

  test.each([
    [429, 'ThrottlingException'],
    [403, 'AccessDeniedException'],
    [400, 'ServiceQuotaExceededException'],
    [424, 'ModelErrorException'],
  ])('with %d %s is followed by the next provider', async (status, name) => {
    upstream.script(modelId, json(status, { message: 'Not now.' }, errorType(name)));
    upstream.script('other-up', chatAnswer('Here I am.'));
    const reply = await gateway.post(asked({ model: 'acme/both' }));
    expect(contentOf(reply)).toBe('Here I am.');
  });

  test.each([
    ['http://pictures.invalid/cat.png', "The image can't be fetched"],
    ['data:image/tiff;base64,SUkq', 'This model accepts only PNG, JPEG, GIF, and WebP images.'],
  ])('of the image %s comes before anything is sent, and is free', async (url, message) => {
    const content = [{ type: 'image_url', image_url: { url } }];
    const reply = await gateway.post(asked({ messages: [{ role: 'user', content }] }));
    expect(reply.status).toBe(400);
    expect(reply.error.message).toStartWith(message);
    expect(upstream.requests).toHaveLength(0);
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  });
});
