/**
 * Usage reports that can't be true, or that lack a part. An input token costs 1 credit, an output
 * token 2. Every prompt has 240 bytes of text, which are estimated as 60 tokens, and every answer
 * has 8 characters, which are estimated as 2 tokens.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import type { RequestRecord } from '../../src/records/request-record.ts';
import {
  type Behavior,
  chatAnswer,
  json,
  rawUsage,
  replay,
  startFakeUpstream,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { discrepancies } from '../support/ledger-check.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const at = (dialect: string, more: object = {}) => ({
    dialect,
    base_url: `${upstream.url}/v1`,
    api_key: 'sk-upstream-012345',
    ...more,
  });
  const model = (provider: string, more: object = {}) =>
    chatModel(`test/${provider}`, [{ provider, model: 'chat' }], more);
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      openai: at('openai'),
      limited: at('openai'),
      uncapped: at('openai', { quirks: { drop_params: ['max_tokens'] } }),
      anthropic: at('anthropic'),
      responses: at('openai-responses'),
    },
    models: [
      model('openai'),
      model('limited', { max_completion_tokens: 1_000 }),
      model('uncapped'),
      model('anthropic'),
      model('responses'),
    ],
  });
});
afterAll(async () => {
  expect(await discrepancies(gateway.store.database)).toEqual([]);
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const messages = [{ role: 'user', content: 'x'.repeat(240) }];
const estimated = 60 * 1 + 2 * 2;

/** Returns the record of a request that the upstream answers like this. */
async function recordOf(behavior: Behavior, fields: object = {}): Promise<RequestRecord> {
  upstream.script('chat', behavior);
  const { requestId, status, text } = await gateway.post({
    model: 'test/openai',
    messages,
    ...fields,
  });
  if (status !== 200) throw new Error(text);
  return gateway.record(requestId);
}

/** Checks the charge of an answer with this report, both streaming and non-streaming. */
async function expectCharge(
  usage: Record<string, unknown>,
  fields: object,
  expected: { credits: number; isEstimate: boolean; note?: string | null },
  text = '12345678',
): Promise<void> {
  for (const stream of [false, true]) {
    const record = await recordOf(rawUsage(usage, chatAnswer(text)), { ...fields, stream });
    expect(record.charges.modelCharge).toBe(expected.credits);
    expect(record.usageEstimated).toBe(expected.isEstimate);
    if (expected.note !== undefined) expect(record.note).toBe(expected.note);
  }
}

const reported = (prompt: unknown, completion: unknown, more: object = {}) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  ...more,
});

const unusableNote = 'The provider reported no billable usage. The tokens are an estimate.';
const excessiveNote =
  'The provider reported more tokens than the request can use. The tokens are an estimate.';
const noInputNote = "The provider didn't count the input. The input tokens are an estimate.";
const noOutputNote =
  "The provider didn't count its complete answer. The output tokens are an estimate.";

describe('a usage report with invalid numbers', () => {
  test.each([
    ['negative', reported(-5, 5)],
    ['negative reasoning', reported(5, 5, { completion_tokens_details: { reasoning_tokens: -1 } })],
    ['fractional', reported(5.5, 5)],
    ['text as input tokens', reported('5', 5)],
    ['text as output tokens', reported(5, '5')],
    ['null', reported(null, null)],
    ['astronomical', reported(1e308, 5)],
    ['beyond 2⁵³', reported(5, 2 ** 64 - 22_904_832)],
    ['zero', reported(0, 0, { total_tokens: 0 })],
  ])('is replaced by an estimate, with a note: %s', (_, usage) =>
    expectCharge(usage, {}, { credits: estimated, isEstimate: true, note: unusableNote }),
  );
});

describe('reported output', () => {
  const excessive = { credits: estimated, isEstimate: true, note: excessiveNote };

  test('above the cap that was sent is replaced by an estimate', () =>
    expectCharge(reported(60, 1_000_000), { max_tokens: 5 }, excessive));

  test('above the cap is believed within a small tolerance', async () => {
    // A tenth of the cap and 32 tokens.
    await expectCharge(reported(60, 1_132), { max_tokens: 1_000 }, believed(60, 1_132));
    await expectCharge(reported(60, 1_133), { max_tokens: 1_000 }, excessive);
  });

  test('may be as much as the cap for each choice', async () => {
    const fields = { max_tokens: 1_000, n: 3 };
    await expectCharge(reported(60, 3_396), fields, believed(60, 3_396));
    await expectCharge(reported(60, 3_397), fields, excessive);
  });

  test("above the model's maximum is replaced by an estimate if no cap was sent", async () => {
    for (const fields of [{ model: 'test/limited' }, { model: 'test/limited', max_tokens: 9_000 }])
      await expectCharge(reported(60, 1_133), fields, excessive);
    await expectCharge(reported(60, 1_132), { model: 'test/limited' }, believed(60, 1_132));
  });

  test("above the model's context is replaced by an estimate without any maximum", async () => {
    await expectCharge(reported(60, 128_000), {}, believed(60, 128_000));
    await expectCharge(reported(60, 1_000_000), {}, excessive);
  });

  test('above the cap is believed as far as the text was delivered', () =>
    expectCharge(reported(60, 200), { max_tokens: 5 }, believed(60, 200), 'x'.repeat(200)));

  test('may exceed a cap that the provider does not receive', () =>
    expectCharge(
      reported(60, 5_000),
      { model: 'test/uncapped', max_tokens: 5 },
      believed(60, 5_000),
    ));

  test('may have reasoning that the provider does not count toward the cap', async () => {
    const reasoned = (count: number) => ({
      completion_tokens_details: { reasoning_tokens: count },
    });
    await expectCharge(
      reported(60, 9_005, reasoned(9_000)),
      { max_tokens: 5 },
      believed(60, 9_005),
    );
    await expectCharge(reported(60, 1_000_000, reasoned(999_995)), { max_tokens: 5 }, excessive);
  });

  test.each([false, true])(
    'above the cap is not shown at the end to clients of the same dialect, streaming: %p',
    async (stream) => {
      const usage = { input_tokens: 60, output_tokens: 1_000_000 };
      upstream.script('chat', rawUsage(usage, chatAnswer('12345678')));
      const body = { model: 'test/anthropic', messages, max_tokens: 5, stream };
      const { requestId, text } = await gateway.post(body, { path: '/v1/messages' });
      const record = await gateway.record(requestId);
      expect(record).toMatchObject({ usageEstimated: true, note: excessiveNote });
      expect(record.charges.modelCharge).toBe(estimated);
      const counts = [...text.matchAll(/"output_tokens":(\d+)/g)].map(([, count]) => count);
      expect(counts.at(-1)).toBe('2');
    },
  );

  test('above the cap is not shown to clients of the Responses endpoint', async () => {
    upstream.script('chat', response({ input_tokens: 60, output_tokens: 1_000_000 }));
    const body = { model: 'test/responses', input: 'x'.repeat(240), max_output_tokens: 16 };
    const { requestId, json: answer } = await gateway.post(body, { path: '/v1/responses' });
    expect(answer.usage).toMatchObject({ input_tokens: 60, output_tokens: 2, total_tokens: 62 });
    expect(await gateway.record(requestId)).toMatchObject({ usageEstimated: true });
  });

  test('of zero beside text is replaced by an estimate', () =>
    expectCharge(reported(50, 0), {}, { credits: 54, isEstimate: true, note: noOutputNote }));
});

describe('reported input', () => {
  const excessive = { credits: estimated, isEstimate: true, note: excessiveNote };

  test("above the request's bytes is replaced by an estimate", async () => {
    await expectCharge(reported(1_000_000, 2), {}, excessive);
    await expectCharge(
      reported(60, 2, { prompt_tokens_details: { cached_tokens: 1_000_000 } }),
      {},
      believedCached,
    );
  });

  test("may include the provider's own instructions", () =>
    expectCharge(reported(30_000, 2), {}, believed(30_000, 2)));

  test('may be a token per byte of a long prompt', async () => {
    const content = 'x'.repeat(100_000);
    const fields = { messages: [{ role: 'user', content }] };
    await expectCharge(reported(130_000, 2), fields, believed(130_000, 2));
    const estimate = { credits: 25_004, isEstimate: true, note: excessiveNote };
    await expectCharge(reported(140_000, 2), fields, estimate);
  });

  test('may be up to 50,000 tokens for each image', async () => {
    const image_url = { url: 'data:image/png;base64,iVBORw0KGgo=' };
    const content = [{ type: 'image_url', image_url }];
    const fields = { messages: [{ role: 'user', content }] };
    await expectCharge(reported(80_000, 2), fields, believed(80_000, 2));
    // 85 tokens are estimated for the image.
    const estimate = { credits: 89, isEstimate: true, note: excessiveNote };
    await expectCharge(reported(84_000, 2), fields, estimate);
  });

  test('may be up to the context for a file, whose pages may be compressed', async () => {
    const file = { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' };
    const fields = { messages: [{ role: 'user', content: [{ type: 'file', file }] }] };
    await expectCharge(reported(160_000, 2), fields, believed(160_000, 2));
    const estimate = { credits: 6, isEstimate: true, note: excessiveNote };
    await expectCharge(reported(161_000, 2), fields, estimate);
  });

  test('may be larger if the provider ran tools of its own', () =>
    expectCharge(
      reported(120_000, 2, { server_tool_use: { web_search_requests: 2 } }),
      {},
      believed(120_000, 2),
    ));

  test('of zero beside a prompt is replaced by an estimate', () =>
    expectCharge(reported(0, 7), {}, { credits: 74, isEstimate: true, note: noInputNote }));

  test('is an estimate if only the output is reported', async () => {
    const expected = { credits: 74, isEstimate: true, note: noInputNote };
    await expectCharge({ completion_tokens: 7 }, {}, expected);
    await expectCharge({ output_tokens: 7 }, {}, expected);
    await expectCharge({ output_tokens: 7 }, { model: 'test/anthropic' }, expected);
  });

  test('is an estimate if a response reports only the output', async () => {
    const record = await recordOf(response({ output_tokens: 7 }), { model: 'test/responses' });
    expect(record).toMatchObject({ usageEstimated: true, note: noInputNote });
    expect(record.charges.modelCharge).toBe(74);
  });

  const believedCached = { credits: 64, isEstimate: false };
});

test('a total never replaces the counts that are reported', () =>
  expectCharge(reported(60, 2, { total_tokens: 1_000_000 }), {}, believed(60, 2)));

describe('a report of only zeros beside text', () => {
  const zero = reported(0, 0, { total_tokens: 0 });

  test('is replaced by an estimate even if the provider ran tools of its own', () => {
    const usage = { ...zero, server_tool_use: { web_search_requests: 1 } };
    return expectCharge(usage, {}, { credits: estimated, isEstimate: true, note: unusableNote });
  });

  test('is free if a filter wrote the text', async () => {
    const message = { role: 'assistant', content: 'This was blocked.' };
    const choices = [{ index: 0, message, finish_reason: 'content_filter' }];
    const body = { id: 'c', object: 'chat.completion', model: 'chat', choices, usage: zero };
    const record = await recordOf(json(200, body));
    expect(record).toMatchObject({ usageEstimated: false, charges: { modelCharge: 0 } });
  });
});

describe('an empty answer whose counts are all zero', () => {
  const zero = reported(0, 0, { total_tokens: 0 });

  test('is free in a complete response and in a stream', () =>
    expectCharge(zero, {}, { credits: 0, isEstimate: false, note: null }, ''));

  test.each([
    ['anthropic', { id: 'msg_1', type: 'message', role: 'assistant', content: [] }],
    ['responses', { id: 'resp_1', object: 'response', status: 'completed', output: [] }],
  ])('is free from %s', async (provider, answer) => {
    const usage = { input_tokens: 0, output_tokens: 0 };
    const body = { ...answer, model: 'chat', stop_reason: 'end_turn', usage };
    const record = await recordOf(json(200, body), { model: `test/${provider}` });
    expect(record).toMatchObject({ status: 'success', usageEstimated: false });
    expect(record.charges.modelCharge).toBe(0);
  });
});

test('usage after [DONE] is ignored', async () => {
  const chunk = (fields: object) =>
    `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', ...fields })}\n\n`;
  const delta = { index: 0, delta: { content: '12345678' }, finish_reason: 'stop' };
  const usage = chunk({ choices: [], usage: reported(500, 500) });
  const bytes = `${chunk({ choices: [delta] })}data: [DONE]\n\n${usage}`;
  const answer = replay(bytes, { contentType: 'text/event-stream' });
  const record = await recordOf(answer, { stream: true });
  expect(record).toMatchObject({ usageEstimated: true, note: unusableNote });
  expect(record.charges.modelCharge).toBe(estimated);
});

/** A complete response of the Responses endpoint. */
function response(usage: object): Behavior {
  const content = [{ type: 'output_text', text: '12345678', annotations: [] }];
  const item = { id: 'm', type: 'message', role: 'assistant', status: 'completed', content };
  const output = [item];
  return json(200, {
    id: 'r',
    object: 'response',
    model: 'chat',
    status: 'completed',
    output,
    usage,
  });
}

function believed(input: number, output: number) {
  return { credits: input + 2 * output, isEstimate: false, note: null };
}
