/**
 * The charge for each outcome of a chat request, computed by hand. An input token costs 1 credit,
 * an output token 2. Every request has exactly 400 bytes, which are held as 134 tokens.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, spyOn, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { UpstreamCall } from '../../src/upstream/upstream-call.ts';
import { withinOneMinute } from '../support/clock-boundaries.ts';
import { connectRaw, postText } from '../support/fake-upstream/raw-client.ts';
import {
  type Behavior,
  chatAnswer,
  cutMidStream,
  emptyBody,
  errorInside200,
  gated,
  hangMidStream,
  json,
  rawUsage,
  replay,
  resetMidStream,
  startFakeUpstream,
  status500,
  withoutUsage,
  words,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, type SendOptions } from '../support/in-process.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { SlowReader } from '../support/sse-client.ts';
import { within } from '../support/wait-until.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-upstream-012345' };
  const pricing = { prompt: '1', completion: '2' };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: { first: fake, second: fake, claude: { ...fake, dialect: 'anthropic' } },
    models: [
      chatModel('test/chat', [{ provider: 'first', model: 'chat', pricing }]),
      chatModel('test/claude', [{ provider: 'claude', model: 'chat', pricing }]),
      chatModel('test/two', [
        { provider: 'first', model: 'broken', priority: 0, pricing },
        { provider: 'second', model: 'works', priority: 1, pricing: { ...pricing, prompt: '5' } },
      ]),
    ],
  });
});
afterAll(async () => {
  expect(await discrepancies(gateway.store.database)).toEqual([]);
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

/** Returns a body of 400 bytes with 240 bytes of text: at most 134 tokens, estimated as 60. */
function bytes400(fields: object): string {
  const messages = [{ role: 'user', content: 'x'.repeat(240) }];
  const body = (filler: string) =>
    JSON.stringify({ model: 'test/chat', messages, ...fields, metadata: { filler } });
  return body('y'.repeat(400 - body('').length));
}

/** Returns the record of a request that the upstream answers like this. */
async function recordOf(
  behavior: Behavior,
  fields: object = {},
  options: SendOptions = {},
): Promise<RequestRecord> {
  upstream.script('chat', behavior);
  const { requestId } = await gateway.post(bytes400(fields), options);
  return gateway.record(requestId);
}

const streaming = { stream: true };
const estimateNote = 'The provider reported no billable usage. The tokens are an estimate.';
const unfinishedNote =
  "The provider didn't count its complete answer. The output tokens are an estimate.";

const messagesOf = (content: string) => ({ messages: [{ role: 'user', content }] });

function charge({ charges }: RequestRecord): number {
  const { modelCharge, byokPlatformFee, managedToolFee, agentRuntimeFee } = charges;
  expect([byokPlatformFee, managedToolFee, agentRuntimeFee]).toEqual([0, 0, 0]);
  return modelCharge;
}

describe('complete answer', () => {
  test.each([
    ['non-streaming', {}],
    ['streaming', streaming],
  ])('is charged for the reported usage, %s', async (_, fields) => {
    const usage = { prompt: 10, completion: 4 };
    const record = await recordOf(chatAnswer('one two three four', { usage }), fields);
    expect(charge(record)).toBe(10 * 1 + 4 * 2);
    expect(record).toMatchObject({ status: 'success', usageEstimated: false, note: null });
    expect(record.prices).toMatchObject({ prompt: '1', completion: '2' });
  });

  test.each([
    ['non-streaming', {}],
    ['streaming', streaming],
  ])('without usage is charged for an estimate, with a note, %s', async (_, fields) => {
    const record = await recordOf(withoutUsage(chatAnswer('12345678')), fields);
    expect(charge(record)).toBe(60 * 1 + 2 * 2);
    expect(record).toMatchObject({
      status: 'success',
      usageEstimated: true,
      note: estimateNote,
      finishReason: 'stop',
    });
  });

  const promptOnly = { prompt_tokens: 10, total_tokens: 10 };

  const clientCases = ['/v1/chat/completions', '/v1/messages'].flatMap((path) =>
    [false, true].map((stream) => ({ path, stream })),
  );

  describe.each([
    ['test/chat', promptOnly],
    ['test/claude', { input_tokens: 10 }],
  ])('complete answer of %s with a count of only the prompt', (model, usage) => {
    test.each(clientCases)(
      'estimates the output, $path, streaming: $stream',
      async (clientCase) => {
        upstream.script('chat', rawUsage(usage, chatAnswer('12345678')));
        const { path, stream } = clientCase;
        const body = bytes400({ model, max_tokens: 100, stream });
        const { requestId, text } = await gateway.post(body, { path });
        const record = await gateway.record(requestId);
        expect(charge(record)).toBe(10 * 1 + 2 * 2);
        const expected = { status: 'success', usageEstimated: true, note: unfinishedNote };
        expect(record).toMatchObject(expected);
        if (path === '/v1/messages') expect(text).toContain('"output_tokens":2');
      },
    );
  });

  test('without output is charged only for the prompt if the provider counted it', async () => {
    const record = await recordOf(rawUsage(promptOnly, chatAnswer('')));
    expect(charge(record)).toBe(10 * 1);
  });

  test('starts an Anthropic stream with the same estimate of input tokens as at the end', async () => {
    upstream.script('chat', withoutUsage(chatAnswer('12345678')));
    const body = bytes400({ max_tokens: 100, stream: true });
    const { text } = await gateway.post(body, { path: '/v1/anthropic/messages' });
    const reported = [...text.matchAll(/"input_tokens":(\d+)/g)].map(([, tokens]) => tokens);
    expect(reported).toEqual(['60', '60']);
  });

  test.each([false, true])(
    'with implausible usage is charged by an estimate when forwarded, streaming: %s',
    async (stream) => {
      const usage = { input_tokens: 900_000_000, output_tokens: 5 };
      upstream.script('chat', rawUsage(usage, chatAnswer('12345678')));
      const path = '/v1/anthropic/messages';
      const body = bytes400({ model: 'test/claude', max_tokens: 100, stream });
      const { status, requestId } = await gateway.post(body, { path });
      expect(status).toBe(200);
      const record = await gateway.record(requestId);
      expect(charge(record)).toBe(60 * 1 + 2 * 2);
      expect(record).toMatchObject({ status: 'success', usageEstimated: true });
    },
  );

  test.each([
    ['/v1/chat/completions', messagesOf('hi')],
    ['/v1/messages', { ...messagesOf('hi'), max_tokens: 100 }],
    ['/v1/responses', { input: 'hi' }],
  ])('without usage is charged 1 input token for "hi", in the JSON of %s', async (path, body) => {
    for (const fields of [{}, streaming]) {
      upstream.script('chat', withoutUsage(chatAnswer('12345678')));
      const { requestId } = await gateway.post(
        { model: 'test/chat', ...body, ...fields },
        { path },
      );
      expect(charge(await gateway.record(requestId))).toBe(1 * 1 + 2 * 2);
    }
  });

  test('is never charged more than its hold if usage is estimated', async () => {
    const longAnswer = withoutUsage(chatAnswer('y'.repeat(4_000)));
    const record = await recordOf(longAnswer, { max_tokens: 1 });
    // The answer has 1,000 tokens; the hold covers 134 input tokens and 1 output token.
    expect(charge(record)).toBe(134 * 1 + 1 * 2);
    expect(record.usage.outputTokens).toBe(1_000);
    expect(record.note).toBe(
      `${estimateNote} An estimate never costs more than the credits held for the request.`,
    );
  });

  test('is charged more than its hold if usage is reported and the wallet can pay', async () => {
    const usage = { prompt: 10, completion: 5_000 };
    // The hold covers the first 4,096 output tokens.
    const record = await recordOf(chatAnswer('hello', { usage }));
    expect(charge(record)).toBe(10 * 1 + 5_000 * 2);
  });
});

describe('failed request', () => {
  test('is free if all offers failed before the first byte', async () => {
    const record = await recordOf(status500());
    expect(charge(record)).toBe(0);
    expect(record).toMatchObject({ status: 'error', error: 'upstream_error', model: null });
  });

  test.each([
    ['no body', emptyBody()],
    [
      'no output and no finish reason',
      json(200, {
        choices: [{ index: 0, message: { role: 'assistant', content: '' }, finish_reason: null }],
        usage: { prompt_tokens: 7, completion_tokens: 0, total_tokens: 7 },
      }),
    ],
  ])('is free if the answer is empty (%s)', async (_, behavior) => {
    const record = await recordOf(behavior);
    expect(charge(record)).toBe(0);
    expect(record.status).toBe('error');
  });

  test.each([
    ['ends too early', cutMidStream(5, 'end-of-body', chatAnswer(words(24)))],
    ['resets the connection', resetMidStream(5, chatAnswer(words(24)))],
    ['sends an error', errorInside200(5, 'data', chatAnswer(words(24)))],
  ])('is charged for input and delivered output if the upstream %s', async (_, behavior) => {
    const record = await recordOf(behavior, streaming);
    // "w1 w2 w3 w4" has 11 characters, which are 3 tokens.
    expect(charge(record)).toBe(60 * 1 + 3 * 2);
    expect(record).toMatchObject({ status: 'error', error: 'upstream_error', note: estimateNote });
  });

  test('is charged for counted input and an estimate of delivered output', async () => {
    const [first, ...others] = words(4)
      .split(/(?= )/)
      .map((content) => ({
        choices: [{ index: 0, delta: { content }, finish_reason: null }],
      }));
    const usage = { prompt_tokens: 70, completion_tokens: 0, total_tokens: 70 };
    const events = [{ ...first, usage }, ...others].map(
      (event) => `data: ${JSON.stringify(event)}\n\n`,
    );
    const record = await recordOf(
      replay(events.join(''), { contentType: 'text/event-stream' }),
      streaming,
    );
    expect(charge(record)).toBe(70 * 1 + 3 * 2);
    expect(record).toMatchObject({ status: 'error', usageEstimated: true, note: unfinishedNote });
  });

  test.each(['/v1/chat/completions', '/v1/anthropic/messages', '/v1/responses'])(
    'is charged for an estimate, with a note, if output would be counted at the end, %s',
    async (path) => {
      const usage = { prompt: 70, completion: 24 };
      // 3 events, then 1 for each of 39 words: 146 characters, which are 36 tokens.
      upstream.script('chat', cutMidStream(42, 'end-of-body', chatAnswer(words(50), { usage })));
      const input = path.endsWith('responses') ? { input: 'Hello' } : messagesOf('Hello');
      const body = { model: 'test/claude', max_tokens: 100, ...input, ...streaming };
      const { requestId } = await gateway.post(body, { path });
      const record = await gateway.record(requestId);
      expect(charge(record)).toBe(70 * 1 + 36 * 2);
      expect(record).toMatchObject({ status: 'error', usageEstimated: true, note: unfinishedNote });
    },
  );

  test('is charged only for the input if the counted input exceeds the hold', async () => {
    const usage = { prompt: 7_000, completion: 24 };
    upstream.script('chat', cutMidStream(42, 'end-of-body', chatAnswer(words(50), { usage })));
    const fields = { ...messagesOf('Hello'), max_tokens: 100, ...streaming };
    const { requestId } = await gateway.post({ model: 'test/claude', ...fields });
    const record = await gateway.record(requestId);
    expect(record).toMatchObject({ usageEstimated: true, usage: { outputTokens: 36 } });
    expect(charge(record)).toBe(7_000);
  });

  test('is charged at the price of the fallback that answered, in one row', async () => {
    upstream.script('broken', status500());
    upstream.script('works', chatAnswer('hi', { usage: { prompt: 10, completion: 1 } }));
    const { requestId } = await gateway.post(bytes400({ model: 'test/two' }));
    const record = await gateway.record(requestId);
    expect(charge(record)).toBe(10 * 5 + 1 * 2);
    expect(record).toMatchObject({ status: 'success', provider: 'second' });
    expect(record.attempts.map(({ provider, outcome }) => [provider, outcome])).toEqual([
      ['first', 'server'],
      ['second', 'answered'],
    ]);
  });
});

describe('request canceled by the client', () => {
  test('is canceled upstream and charged for delivered output', async () => {
    upstream.script('chat', gated('never', 5, chatAnswer(words(24))));
    const client = new AbortController();
    const response = await gateway.fetch(bytes400(streaming), { signal: client.signal });
    await new SlowReader(response).readUntil('w4');
    client.abort();
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const record = await gateway.record(response.headers.get('x-request-id') ?? '');
    expect(charge(record)).toBe(60 * 1 + 3 * 2);
    expect(record).toMatchObject({ status: 'success', cancelled: true, usageEstimated: true });
  });
});

describe('request canceled before the usage', () => {
  const usage = { prompt: 10, completion: 24 };

  /** Resolves when the gateway notices a disconnect and starts its brief wait for the usage. */
  async function whenNoticed(): Promise<void> {
    const { linger } = UpstreamCall.prototype;
    const noticed = Promise.withResolvers<void>();
    const spy = spyOn(UpstreamCall.prototype, 'linger').mockImplementation(function (
      this: UpstreamCall,
    ) {
      linger.call(this);
      noticed.resolve();
    });
    await within(noticed.promise, 'the disconnect to be noticed');
    spy.mockRestore();
  }

  /** Disconnects after reading `last`. Then lets the upstream send the other events. */
  async function cancelAt(model: string, last: string, events: number, answer: Behavior) {
    upstream.script('chat', gated('left', events, answer));
    const client = await connectRaw(gateway.port);
    const body = JSON.parse(bytes400({ ...streaming, model }));
    const authorization = `authorization: Bearer ${gateway.keys.routing}\r\n`;
    client.send(postText('/v1/chat/completions', body, authorization));
    await client.received(last);
    const noticed = whenNoticed();
    client.disconnect();
    await noticed;
    upstream.open('left');
    const { text } = await client.finished();
    await upstream.until((requests) => requests.find(({ finishedAt }) => finishedAt !== null));
    return gateway.record(/x-request-id: (\S+)/i.exec(text)?.[1] ?? '');
  }

  test.each([
    ['after the last output', 'test/chat', '"stop"', 26],
    ['in the middle of the output', 'test/chat', 'w20', 21],
    ['in the middle of output that is counted at the end', 'test/claude', 'w20', 24],
  ])('is charged for the usage that still arrives, %s', async (_, model, last, events) => {
    const record = await cancelAt(model, last, events, chatAnswer(words(24), { usage }));
    expect(charge(record)).toBe(10 * 1 + 24 * 2);
    expect(record).toMatchObject({ status: 'success', cancelled: true, usageEstimated: false });
    expect(record).toMatchObject({ note: null, finishReason: 'stop' });
  });

  test('is charged an estimate for output that the provider counts as 0 tokens', async () => {
    const noOutput = { usage: { prompt: 10, completion: 0 } };
    const answer = chatAnswer('12345678', noOutput);
    const record = await cancelAt('test/chat', '"stop"', 3, answer);
    expect(charge(record)).toBe(10 + 2 * 2);
    expect(record).toMatchObject({ cancelled: true, usageEstimated: true });
  });
});

describe('request rejected by the gateway', () => {
  const free = { status: 'error', prices: null, usage: { inputTokens: 0, outputTokens: 0 } };

  test.each([
    ['400', 'invalid_request_error', { temperature: 'hot' }],
    ['404', 'invalid_request_error', { model: 'test/unknown' }],
  ])('is free and logged: %s', async (status, error, fields) => {
    const rejected = await gateway.post(bytes400(fields));
    expect(String(rejected.status)).toBe(status);
    const record = await gateway.record(rejected.requestId);
    expect(charge(record)).toBe(0);
    expect(record).toMatchObject({ ...free, error });
    expect(upstream.requests).toHaveLength(0);
  });

  test('is free and logged: 403', async () => {
    const key = await gateway.makeKey({ models: ['other/*'] });
    const rejected = await gateway.post(bytes400({}), { key });
    expect(rejected.status).toBe(403);
    expect(await gateway.record(rejected.requestId)).toMatchObject({ ...free, error: 'forbidden' });
  });

  test('is free and logged: 429', async () => {
    const rejected = await withinOneMinute(async () => {
      upstream.reset();
      const key = await gateway.makeKey({ requests_per_minute: 1 });
      await gateway.post(bytes400({}), { key });
      return gateway.post(bytes400({}), { key });
    });
    expect(rejected.status).toBe(429);
    const record = await gateway.record(rejected.requestId);
    expect(record).toMatchObject({ ...free, error: 'rate_limit_exceeded' });
    expect(upstream.requests).toHaveLength(1);
  });

  test('is free and logged: 402', async () => {
    // 134 input tokens and the minimum of 16 output tokens cost 166.
    const key = await gateway.makeKey({ limit: 165 });
    const rejected = await gateway.post(bytes400({}), { key });
    expect(rejected.status).toBe(402);
    expect(rejected.error.message).toBe(
      'This key has 165 credits left; the request needs at least 166. ' +
        "Raise the key's limit or send a smaller request.",
    );
    const record = await gateway.record(rejected.requestId);
    expect(record).toMatchObject({ ...free, error: 'insufficient_credits' });
    expect(upstream.requests).toHaveLength(0);
  });

  test('is not logged if the key is unknown: 401', async () => {
    const rejected = await gateway.post(bytes400({}), { key: 'sk-tg-unknown' });
    expect(rejected.status).toBe(401);
    const found = await gateway.store.requestLog.find('default', rejected.requestId);
    expect(found).toBeUndefined();
  });
});

describe('image of 2 MB without usage', () => {
  const base64 = 'A'.repeat(2_000_000);
  const url = `data:image/png;base64,${base64}`;
  const images = [{ type: 'image_url', image_url: { url } }];
  const chunk = (delta: object, finish_reason: string | null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const answer = `${chunk({ images }, null)}${chunk({}, 'stop')}data: [DONE]\n\n`;

  test.each([
    ['/v1/chat/completions', {}, 60],
    ['/v1/messages', { max_tokens: 1_500 }, 60],
    ['/v1/responses', { messages: undefined, input: 'x' }, 1],
  ])("is charged for an estimate of the image's tokens at %s", async (path, more, prompt) => {
    const key = await gateway.makeKey({ limit: 4_000 });
    upstream.script('chat', replay(answer, { contentType: 'text/event-stream' }));
    const short = JSON.stringify({ ...JSON.parse(bytes400(streaming)), ...more });
    const reply = await gateway.post(short.padEnd(400), { path, key });
    expect(reply.text).toContain(base64);
    const record = await gateway.record(reply.requestId);
    expect(record).toMatchObject({
      status: 'success',
      usageEstimated: true,
      finishReason: 'stop',
    });
    // 5,200 characters of output are 1,300 tokens.
    expect(record.usage).toMatchObject({ outputTokens: 1_300 });
    expect(charge(record)).toBe(prompt * 1 + 1_300 * 2);
  });
});

describe('request that runs out of credits', () => {
  test('is sent with the output cap that the credits can pay', async () => {
    const key = await gateway.makeKey({ limit: 400 });
    await recordOf(chatAnswer('hi', { usage: { prompt: 10, completion: 1 } }), {}, { key });
    const [entry] = upstream.requests;
    // (400 − 134) / 2
    expect(entry?.json).toMatchObject({ max_tokens: 133 });
  });

  test('is interrupted if the upstream exceeds the output cap, and charged its full hold', async () => {
    const key = await gateway.makeKey({ limit: 400 });
    // The upstream sends 2,000 characters and hangs, so only the gateway can end the stream.
    const long = withoutUsage(chatAnswer('word '.repeat(800), { chunks: 40 }));
    upstream.script('chat', hangMidStream(21, long));
    const answer = await gateway.stream(JSON.parse(bytes400({})), { key });
    expect(answer.error).toMatchObject({ type: 'insufficient_credits', code: 402 });
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const record = await gateway.record(answer.requestId);
    expect(charge(record)).toBe(400);
    expect(record).toMatchObject({ status: 'error', error: 'insufficient_credits' });
    const next = await gateway.post(bytes400({}), { key });
    expect(next.status).toBe(402);
  });

  test("is charged in full if only the key's limit is exceeded at the end", async () => {
    const key = await gateway.makeKey({ limit: 400 });
    const usage = { prompt: 600, completion: 1 };
    const record = await recordOf(chatAnswer('hello', { usage }), { max_tokens: 1 }, { key });
    expect(charge(record)).toBe(600 * 1 + 1 * 2);
    const next = await gateway.post(bytes400({}), { key });
    expect(next.status).toBe(402);
  });

  test('is charged as much as the wallet has, and the other credits are written off', async () => {
    const created = await gateway.post({ name: 'Small' }, admin('/admin/v1/tenants'));
    const tenant = isObject(created.json.data) ? String(created.json.data.id) : '';
    const path = `/admin/v1/tenants/${tenant}`;
    await gateway.post({ amount: 500, note: 'all there is' }, admin(`${path}/credits`));
    const issued = await gateway.post({ name: 'small' }, admin(`${path}/keys`));
    upstream.script('chat', chatAnswer('hello', { usage: { prompt: 2_008, completion: 1 } }));
    const key = String(issued.json.key);
    const answer = await gateway.post(bytes400({ max_tokens: 1 }), { key });
    expect(answer.status).toBe(200);
    expect(answer.json.usage).toMatchObject({ cost: 500 });
    await gateway.get(`/v1/generation?id=${answer.requestId}`, { key });
    const record = await gateway.record(answer.requestId, tenant);
    expect(charge(record)).toBe(500);
    expect(record.note).toBe(
      "1510 credits were written off because the wallet couldn't cover them.",
    );
    const wallet = await gateway.store.creditStore.balance(tenant);
    expect(wallet).toMatchObject({ balance: 0 });
  });
});

function admin(path: string): SendOptions {
  return { path, key: gateway.keys.admin };
}
