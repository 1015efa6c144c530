/**
 * Every way a chat request can end, and its charge computed by hand. One credit a token in, two a
 * token out. Requests are exactly 400 bytes long: 100 tokens where they must be estimated, and at
 * most 134 when they are held for.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, spyOn, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { UpstreamCall } from '../../src/upstream/upstream-call.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { connectRaw, postText } from '../support/fake-upstream/raw-client.ts';
import {
  type Behavior,
  cutMidStream,
  emptyBody,
  errorInside200,
  gated,
  hangMidStream,
  json,
  withoutUsage,
  replay,
  resetMidStream,
  chatAnswer,
  startFakeUpstream,
  status500,
  rawUsage,
  words,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, type SendOptions } from '../support/in-process.ts';
import { withinOneMinute } from '../support/clock-boundaries.ts';
import { SlowReader } from '../support/sse-client.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
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

/** Of 400 bytes, 240 are words: 134 tokens at most, and 60 by the estimate. */
function bytes400(fields: object): string {
  const messages = [{ role: 'user', content: 'x'.repeat(240) }];
  const body = (filler: string) =>
    JSON.stringify({ model: 'test/chat', messages, ...fields, metadata: { filler } });
  return body('y'.repeat(400 - body('').length));
}

/** What the books say about a request to which the upstream does this. */
async function ending(
  behavior: Behavior,
  fields: object = {},
  options: SendOptions = {},
): Promise<RequestRecord> {
  upstream.script('chat', behavior);
  const { requestId } = await gateway.post(bytes400(fields), options);
  return gateway.record(requestId);
}

const streamed = { stream: true };
const estimateNote = 'The provider reported no billable usage. The tokens are an estimate.';
const unfinishedNote =
  "The provider didn't count its complete answer. The output tokens are an estimate.";

const messagesOf = (content: string) => ({ messages: [{ role: 'user', content }] });

function charge({ charges }: RequestRecord): number {
  const { modelCharge, byokPlatformFee, managedToolFee, agentRuntimeFee } = charges;
  expect([byokPlatformFee, managedToolFee, agentRuntimeFee]).toEqual([0, 0, 0]);
  return modelCharge;
}

describe('complete', () => {
  test.each([
    ['whole', {}],
    ['streamed', streamed],
  ])('%s: the reported usage', async (_, fields) => {
    const usage = { prompt: 10, completion: 4 };
    const record = await ending(chatAnswer('one two three four', { usage }), fields);
    expect(charge(record)).toBe(10 * 1 + 4 * 2);
    expect(record).toMatchObject({ status: 'success', usageEstimated: false, note: null });
    expect(record.prices).toMatchObject({ prompt: '1', completion: '2' });
  });

  test.each([
    ['whole', {}],
    ['streamed', streamed],
  ])('%s without usage: an estimate that says so', async (_, fields) => {
    const record = await ending(withoutUsage(chatAnswer('12345678')), fields);
    expect(charge(record)).toBe(60 * 1 + 2 * 2);
    expect(record).toMatchObject({
      status: 'success',
      usageEstimated: true,
      note: estimateNote,
      finishReason: 'stop',
    });
  });

  const promptAlone = { prompt_tokens: 10, total_tokens: 10 };

  const formsOfClients = ['/v1/chat/completions', '/v1/messages'].flatMap((path) =>
    [false, true].map((stream) => ({ path, stream })),
  );

  describe.each([
    ['test/chat', promptAlone],
    ['test/claude', { input_tokens: 10 }],
  ])('%s with only the prompt counted', (model, usage) => {
    test.each(formsOfClients)('that, and what was said: $path, streamed: $stream', async (form) => {
      upstream.script('chat', rawUsage(usage, chatAnswer('12345678')));
      const { path, stream } = form;
      const body = bytes400({ model, max_tokens: 100, stream });
      const { requestId, text } = await gateway.post(body, { path });
      const record = await gateway.record(requestId);
      expect(charge(record)).toBe(10 * 1 + 2 * 2);
      const how = { status: 'success', usageEstimated: true, note: unfinishedNote };
      expect(record).toMatchObject(how);
      if (path === '/v1/messages') expect(text).toContain('"output_tokens":2');
    });
  });

  test('of nothing said, only the prompt has to be counted', async () => {
    const record = await ending(rawUsage(promptAlone, chatAnswer('')));
    expect(charge(record)).toBe(10 * 1);
  });

  test('streamed in the words of another dialect: it begins with the same estimate', async () => {
    upstream.script('chat', withoutUsage(chatAnswer('12345678')));
    const body = bytes400({ max_tokens: 100, stream: true });
    const { text } = await gateway.post(body, { path: '/v1/anthropic/messages' });
    const told = [...text.matchAll(/"input_tokens":(\d+)/g)].map(([, tokens]) => tokens);
    expect(told).toEqual(['60', '60']);
  });

  test.each([false, true])(
    'with usage that cannot be, and passed through: an estimate of its words, streamed: %s',
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
  ])(
    'at %s without usage: a token for «hi», however much JSON is around it',
    async (path, body) => {
      for (const fields of [{}, streamed]) {
        upstream.script('chat', withoutUsage(chatAnswer('12345678')));
        const { requestId } = await gateway.post(
          { model: 'test/chat', ...body, ...fields },
          { path },
        );
        expect(charge(await gateway.record(requestId))).toBe(1 * 1 + 2 * 2);
      }
    },
  );

  test('an estimate never costs more than what was held', async () => {
    const chatter = withoutUsage(chatAnswer('y'.repeat(4_000)));
    const record = await ending(chatter, { max_tokens: 1 });
    // 1,000 tokens were said; held were 134 in and 1 out.
    expect(charge(record)).toBe(134 * 1 + 1 * 2);
    expect(record.usage.outputTokens).toBe(1_000);
    expect(record.note).toBe(
      `${estimateNote} An estimate never costs more than the credits held for the request.`,
    );
  });

  test('reported usage above the hold is charged as long as the wallet has it', async () => {
    const usage = { prompt: 10, completion: 5_000 };
    const record = await ending(chatAnswer('hello', { usage }), { max_tokens: 1 });
    expect(charge(record)).toBe(10 * 1 + 5_000 * 2);
  });
});

describe('failed', () => {
  test('before the first byte, everywhere: nothing', async () => {
    const record = await ending(status500());
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
  ])('an empty answer (%s): nothing', async (_, behavior) => {
    const record = await ending(behavior);
    expect(charge(record)).toBe(0);
    expect(record.status).toBe('error');
  });

  test.each([
    ['ends too early', cutMidStream(5, 'end-of-body', chatAnswer(words(24)))],
    ['resets the connection', resetMidStream(5, chatAnswer(words(24)))],
    ['sends an error', errorInside200(5, 'data', chatAnswer(words(24)))],
  ])('an upstream that %s in the middle: input and what was delivered', async (_, behavior) => {
    const record = await ending(behavior, streamed);
    // "w1 w2 w3 w4" is 11 characters: 3 tokens.
    expect(charge(record)).toBe(60 * 1 + 3 * 2);
    expect(record).toMatchObject({ status: 'error', error: 'upstream_error', note: estimateNote });
  });

  test('in the middle, with only the prompt counted: that, and what was delivered', async () => {
    const [first, ...others] = words(4)
      .split(/(?= )/)
      .map((content) => ({
        choices: [{ index: 0, delta: { content }, finish_reason: null }],
      }));
    const usage = { prompt_tokens: 70, completion_tokens: 0, total_tokens: 70 };
    const events = [{ ...first, usage }, ...others].map(
      (event) => `data: ${JSON.stringify(event)}\n\n`,
    );
    const record = await ending(
      replay(events.join(''), { contentType: 'text/event-stream' }),
      streamed,
    );
    expect(charge(record)).toBe(70 * 1 + 3 * 2);
    expect(record).toMatchObject({ status: 'error', usageEstimated: true, note: unfinishedNote });
  });

  test.each(['/v1/chat/completions', '/v1/anthropic/messages', '/v1/responses'])(
    'in the middle, at a provider that counts the output last: an estimate that says so, %s',
    async (path) => {
      const usage = { prompt: 70, completion: 24 };
      // Three events, then one for each of 39 words: 146 characters are 36 whole tokens.
      upstream.script('chat', cutMidStream(42, 'end-of-body', chatAnswer(words(50), { usage })));
      const asked = path.endsWith('responses') ? { input: 'Hello' } : messagesOf('Hello');
      const body = { model: 'test/claude', max_tokens: 100, ...asked, ...streamed };
      const { requestId } = await gateway.post(body, { path });
      const record = await gateway.record(requestId);
      expect(charge(record)).toBe(70 * 1 + 36 * 2);
      expect(record).toMatchObject({ status: 'error', usageEstimated: true, note: unfinishedNote });
    },
  );

  test('in the middle, a prompt counted beyond the hold: that, and no guess on top', async () => {
    const usage = { prompt: 7_000, completion: 24 };
    upstream.script('chat', cutMidStream(42, 'end-of-body', chatAnswer(words(50), { usage })));
    const asked = { ...messagesOf('Hello'), max_tokens: 100, ...streamed };
    const { requestId } = await gateway.post({ model: 'test/claude', ...asked });
    const record = await gateway.record(requestId);
    expect(record).toMatchObject({ usageEstimated: true, usage: { outputTokens: 36 } });
    expect(charge(record)).toBe(7_000);
  });

  test('first, then answered by another: the price of the one that answered, one row', async () => {
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

describe('left by the client', () => {
  test('mid-stream: the upstream is cancelled and what was delivered is charged', async () => {
    upstream.script('chat', gated('never', 5, chatAnswer(words(24))));
    const leaving = new AbortController();
    const response = await gateway.fetch(bytes400(streamed), { signal: leaving.signal });
    await new SlowReader(response).readUntil('w4');
    leaving.abort();
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const record = await gateway.record(response.headers.get('x-request-id') ?? '');
    expect(charge(record)).toBe(60 * 1 + 3 * 2);
    expect(record).toMatchObject({ status: 'success', cancelled: true, usageEstimated: true });
  });
});

describe('left by the client before the first byte', () => {
  const leftNote = 'The client disconnected before the answer started. Nothing is charged.';

  async function newest(): Promise<string> {
    const { json } = await gateway.get('/v1/customer/logs?limit=1');
    const [row]: unknown[] = Array.isArray(json.logs) ? json.logs : [];
    return isObject(row) ? String(row.request_id) : '';
  }

  async function leave(fields: object): Promise<RequestRecord> {
    const before = await newest();
    const { length } = upstream.requests;
    const client = await connectRaw(gateway.port);
    const headers = `authorization: Bearer ${gateway.keys.routing}\r\n`;
    client.send(postText('/v1/chat/completions', JSON.parse(bytes400(fields)), headers));
    // With its body read, so that this call has used up what was scripted for it.
    await upstream.until((requests) => requests[length]?.model);
    client.hangUp();
    let requestId = before;
    for (; requestId === before; requestId = await newest()) await Bun.sleep(1);
    return gateway.record(requestId);
  }

  test.each([
    ['whole', {}],
    ['streamed', streamed],
  ])('%s: nothing, and no provider is blamed', async (_, fields) => {
    upstream.script('broken', [...Array(6).fill(gated('never', 0)), chatAnswer('Here.')]);
    for (let round = 0; round < 6; round += 1) {
      const record = await leave({ ...fields, model: 'test/two' });
      expect(charge(record)).toBe(0);
      expect(record).toMatchObject({ status: 'error', error: null, cancelled: true });
      expect(record).toMatchObject({ model: null, note: leftNote });
      expect(record.attempts.map(({ outcome }) => outcome)).toEqual(['client_disconnected']);
    }
    // Five failures in a row would have sent this one elsewhere.
    const { requestId } = await gateway.post(bytes400({ ...fields, model: 'test/two' }));
    expect(await gateway.record(requestId)).toMatchObject({ provider: 'first', error: null });
  });
});

describe('left by the client before the usage', () => {
  const usage = { prompt: 10, completion: 24 };

  /** At once when a client is seen to leave: from then on the rest is awaited for a moment only. */
  async function whenNoticed(): Promise<void> {
    const { linger } = UpstreamCall.prototype;
    const noticed = Promise.withResolvers<void>();
    const spy = spyOn(UpstreamCall.prototype, 'linger').mockImplementation(function (
      this: UpstreamCall,
    ) {
      linger.call(this);
      noticed.resolve();
    });
    await noticed.promise;
    spy.mockRestore();
  }

  /** The client has read up to `last` when it leaves; the rest comes when that was noticed. */
  async function leftAt(model: string, last: string, events: number, said: Behavior) {
    upstream.script('chat', gated('left', events, said));
    const client = await connectRaw(gateway.port);
    const body = JSON.parse(bytes400({ ...streamed, model }));
    const authorization = `authorization: Bearer ${gateway.keys.routing}\r\n`;
    client.send(postText('/v1/chat/completions', body, authorization));
    await client.received(last);
    const noticed = whenNoticed();
    client.hangUp();
    await noticed;
    upstream.open('left');
    const { text } = await client.finished();
    await upstream.until((requests) => requests.find(({ finishedAt }) => finishedAt !== null));
    return gateway.record(/x-request-id: (\S+)/i.exec(text)?.[1] ?? '');
  }

  test.each([
    ['behind the last word', 'test/chat', '"stop"', 26],
    ['in the middle', 'test/chat', 'w20', 21],
    ['in the middle, at a provider that counts the output last', 'test/claude', 'w20', 24],
  ])('%s: the usage that comes all the same', async (_, model, last, events) => {
    const record = await leftAt(model, last, events, chatAnswer(words(24), { usage }));
    expect(charge(record)).toBe(10 * 1 + 24 * 2);
    expect(record).toMatchObject({ status: 'success', cancelled: true, usageEstimated: false });
    expect(record).toMatchObject({ note: null, finishReason: 'stop' });
  });

  test('a whole answer of no tokens costs none', async () => {
    const nothing = { usage: { prompt: 10, completion: 0 } };
    const record = await leftAt('test/chat', '"stop"', 26, chatAnswer(words(24), nothing));
    expect(charge(record)).toBe(10);
    expect(record).toMatchObject({ cancelled: true, usageEstimated: false });
  });
});

describe('refused by us', () => {
  const free = { status: 'error', prices: null, usage: { inputTokens: 0, outputTokens: 0 } };

  test.each([
    ['400', 'invalid_request_error', { temperature: 'hot' }],
    ['404', 'invalid_request_error', { model: 'test/unknown' }],
  ])('%s: nothing, and logged', async (status, error, fields) => {
    const refused = await gateway.post(bytes400(fields));
    expect(String(refused.status)).toBe(status);
    const record = await gateway.record(refused.requestId);
    expect(charge(record)).toBe(0);
    expect(record).toMatchObject({ ...free, error });
    expect(upstream.requests).toHaveLength(0);
  });

  test('403: nothing, and logged', async () => {
    const key = await gateway.makeKey({ models: ['other/*'] });
    const refused = await gateway.post(bytes400({}), { key });
    expect(refused.status).toBe(403);
    expect(await gateway.record(refused.requestId)).toMatchObject({ ...free, error: 'forbidden' });
  });

  test('429: nothing, and logged', async () => {
    const refused = await withinOneMinute(async () => {
      upstream.reset();
      const key = await gateway.makeKey({ requests_per_minute: 1 });
      await gateway.post(bytes400({}), { key });
      return gateway.post(bytes400({}), { key });
    });
    expect(refused.status).toBe(429);
    const record = await gateway.record(refused.requestId);
    expect(record).toMatchObject({ ...free, error: 'rate_limit_exceeded' });
    expect(upstream.requests).toHaveLength(1);
  });

  test('402: nothing, and logged', async () => {
    // 134 in and 16 out, the least that is of use, cost 166.
    const key = await gateway.makeKey({ limit: 165 });
    const refused = await gateway.post(bytes400({}), { key });
    expect(refused.status).toBe(402);
    expect(refused.error.message).toBe(
      "This key has 165 credits left; the request needs at least 166. Raise the key's limit or send a smaller request.",
    );
    const record = await gateway.record(refused.requestId);
    expect(record).toMatchObject({ ...free, error: 'insufficient_credits' });
    expect(upstream.requests).toHaveLength(0);
  });

  test('401: nobody knows whose log it would be', async () => {
    const refused = await gateway.post(bytes400({}), { key: 'sk-tg-nobody' });
    expect(refused.status).toBe(401);
    const found = await gateway.store.requestLog.find('default', refused.requestId);
    expect(found).toBeUndefined();
  });
});

describe('a picture of two megabytes that nobody counted', () => {
  const base64 = 'A'.repeat(2_000_000);
  const url = `data:image/png;base64,${base64}`;
  const images = [{ type: 'image_url', image_url: { url } }];
  const chunk = (delta: object, finish_reason: string | null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const drawn = `${chunk({ images }, null)}${chunk({}, 'stop')}data: [DONE]\n\n`;

  test.each([
    ['/v1/chat/completions', {}, 60],
    ['/v1/messages', { max_tokens: 1_500 }, 60],
    ['/v1/responses', { messages: undefined, input: 'x' }, 1],
  ])(
    'costs at %s what a picture costs, and fits under such a limit',
    async (path, more, prompt) => {
      const key = await gateway.makeKey({ limit: 4_000 });
      upstream.script('chat', replay(drawn, { contentType: 'text/event-stream' }));
      const short = JSON.stringify({ ...JSON.parse(bytes400(streamed)), ...more });
      const answer = await gateway.post(short.padEnd(400), { path, key });
      expect(answer.text).toContain(base64);
      const record = await gateway.record(answer.requestId);
      expect(record).toMatchObject({
        status: 'success',
        usageEstimated: true,
        finishReason: 'stop',
      });
      // 5,200 characters of output: 1,300 tokens.
      expect(record.usage).toMatchObject({ outputTokens: 1_300 });
      expect(charge(record)).toBe(prompt * 1 + 1_300 * 2);
    },
  );
});

describe('out of credits', () => {
  test('the cap sent upstream is what the credits afford', async () => {
    const key = await gateway.makeKey({ limit: 400 });
    await ending(chatAnswer('hi', { usage: { prompt: 10, completion: 1 } }), {}, { key });
    const [entry] = upstream.requests;
    // (400 − 134) / 2
    expect(entry?.json).toMatchObject({ max_tokens: 133 });
  });

  test('mid-stream: an upstream that ignores its cap is cut and costs what was held', async () => {
    const key = await gateway.makeKey({ limit: 400 });
    // 2,000 characters and then nothing: only we can end it.
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

  test('at the end: the limit takes what is left of it, the wallet pays the rest', async () => {
    const key = await gateway.makeKey({ limit: 400 });
    const usage = { prompt: 10, completion: 1_000 };
    const record = await ending(chatAnswer('hello', { usage }), { max_tokens: 1 }, { key });
    expect(charge(record)).toBe(10 * 1 + 1_000 * 2);
    const next = await gateway.post(bytes400({}), { key });
    expect(next.status).toBe(402);
  });

  test('at the end, in the wallet: what is there is taken, the rest written off', async () => {
    const made = await gateway.post({ name: 'Small' }, admin('/admin/v1/tenants'));
    const tenant = isObject(made.json.data) ? String(made.json.data.id) : '';
    const path = `/admin/v1/tenants/${tenant}`;
    await gateway.post({ amount: 500, note: 'all there is' }, admin(`${path}/credits`));
    const issued = await gateway.post({ name: 'small' }, admin(`${path}/keys`));
    upstream.script('chat', chatAnswer('hello', { usage: { prompt: 10, completion: 1_000 } }));
    const key = String(issued.json.key);
    const answer = await gateway.post(bytes400({ max_tokens: 1 }), { key });
    expect(answer.status).toBe(200);
    expect(answer.json.usage).toMatchObject({ cost: 500 });
    await gateway.get(`/v1/generation?id=${answer.requestId}`, { key });
    const record = await gateway.record(answer.requestId, tenant);
    expect(charge(record)).toBe(500);
    expect(record.note).toBe('1510 credits were written off because the wallet was empty.');
    const wallet = await gateway.store.creditStore.balance(tenant);
    expect(wallet).toMatchObject({ balance: 0 });
  });
});

function admin(path: string): SendOptions {
  return { path, key: gateway.keys.admin };
}
