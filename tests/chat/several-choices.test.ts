/** `n` is sent to Gemini as `candidateCount`, and its candidates become choices. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** $1 is 1,000,000 credits, so prices per million tokens are also credits per token. */
const pricing = { prompt: '2', completion: '12' };

function settings() {
  const google = { dialect: 'gemini', base_url: `${upstream.url}/v1beta`, api_key: 'google-key' };
  return {
    providers: { google, modest: { ...google, quirks: { drop_params: ['n'] } } },
    models: [
      chatModel('acme/gemini', [{ provider: 'google', model: 'gem-up', pricing }]),
      chatModel('acme/modest', [{ provider: 'modest', model: 'gem-up', pricing }]),
    ],
  };
}

beforeAll(async () => {
  gateway = await InProcessGateway.start(settings());
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const question = { role: 'user', content: 'Name a city.' };
const request = { model: 'acme/gemini', messages: [question], n: 3, max_tokens: 100 };
const usageMetadata = { promptTokenCount: 5, candidatesTokenCount: 30, totalTokenCount: 35 };

const candidate = (index: number | undefined, parts: readonly object[], finishReason?: string) => ({
  content: { role: 'model', parts },
  index,
  finishReason,
});
const text = (content: string) => [{ text: content }];
const call = [{ functionCall: { name: 'look', args: { city: 'Rome' } } }];
const cities = [
  candidate(undefined, text('Paris'), 'STOP'),
  candidate(2, text('Os'), 'MAX_TOKENS'),
  candidate(1, call, 'STOP'),
];

/** Returns the generationConfig that the upstream received. */
function configSent(): Record<string, unknown> {
  const body = upstream.requests.at(-1)?.json;
  const config = isObject(body) ? body.generationConfig : undefined;
  return isObject(config) ? config : {};
}

const answer = (candidates: readonly object[]) =>
  upstream.script('gem-up', replay(JSON.stringify({ candidates, usageMetadata })));

function streamOf(chunks: readonly (readonly object[])[]): void {
  const events = chunks.map((candidates, index) => {
    const usage = index === chunks.length - 1 ? { usageMetadata } : {};
    return `data: ${JSON.stringify({ candidates, ...usage })}\n\n`;
  });
  upstream.script('gem-up', replay(events.join(''), { contentType: 'text/event-stream' }));
}

interface StreamedChoice {
  content: string;
  called: string;
  finish: unknown[];
  roles: number;
}

/** Assembles the choices of a stream by index, as a client does. */
function choicesOf(chunks: readonly Record<string, unknown>[]): StreamedChoice[] {
  const merged: StreamedChoice[] = [];
  for (const { choices } of chunks) {
    for (const choice of Array.isArray(choices) ? choices : []) {
      const { index, delta, finish_reason: reason } = choice;
      merged[index] ??= { content: '', called: '', finish: [], roles: 0 };
      const own = merged[index];
      own.content += delta.content ?? '';
      if (delta.role) own.roles += 1;
      for (const one of delta.tool_calls ?? []) own.called += one.function.arguments;
      if (reason !== null) own.finish.push(reason);
    }
  }
  return merged;
}

test('requests n choices, returns them by index, and charges the reported usage', async () => {
  answer(cities);
  const reply = await gateway.post(request);
  expect(reply.status).toBe(200);
  expect(reply.headers.get('x-tollgate-dropped-params')).toBeNull();
  expect(configSent()).toEqual({ candidateCount: 3, maxOutputTokens: 100 });
  expect(reply.json.choices).toMatchObject([
    { index: 0, message: { content: 'Paris' }, finish_reason: 'stop' },
    {
      index: 1,
      message: {
        content: null,
        tool_calls: [{ function: { name: 'look', arguments: '{"city":"Rome"}' } }],
      },
      finish_reason: 'tool_calls',
    },
    { index: 2, message: { content: 'Os' }, finish_reason: 'length' },
  ]);
  // 5 input tokens at 2 credits and 30 output tokens at 12.
  expect(reply.json.usage).toMatchObject({ completion_tokens: 30, cost: 370 });
  const record = await gateway.record(reply.requestId);
  expect([record.charges.modelCharge, record.finishReason]).toEqual([370, 'stop']);
});

test('sorts choices by index and treats a missing index as 0', async () => {
  answer(cities.toReversed());
  const reply = await gateway.post(request);
  expect(reply.json.choices).toMatchObject([
    { index: 0, message: { content: 'Paris' }, finish_reason: 'stop' },
    { index: 1, finish_reason: 'tool_calls' },
    { index: 2, message: { content: 'Os' }, finish_reason: 'length' },
  ]);
});

test('streams several choices even if their pieces are interleaved', async () => {
  streamOf([
    [candidate(1, text('Ro'))],
    [candidate(0, text('Pa')), candidate(1, text('me'))],
    [candidate(2, call, 'STOP')],
    [candidate(0, text('ris'), 'STOP')],
    [candidate(1, text('!'), 'MAX_TOKENS')],
  ]);
  const withUsage = { ...request, stream_options: { include_usage: true } };
  const stream = await gateway.stream(withUsage);
  expect(configSent().candidateCount).toBe(3);
  expect(choicesOf(stream.chunks)).toEqual([
    { content: 'Paris', called: '', finish: ['stop'], roles: 1 },
    { content: 'Rome!', called: '', finish: ['length'], roles: 1 },
    { content: '', called: '{"city":"Rome"}', finish: ['tool_calls'], roles: 1 },
  ]);
  expect(stream.doneCount).toBe(1);
  expect(stream.usage).toMatchObject({ completion_tokens: 30, cost: 370 });
});

test('streams several choices if the upstream returns them in one JSON body', async () => {
  answer(cities);
  const stream = await gateway.stream(request);
  expect(choicesOf(stream.chunks).map(({ content, finish }) => [content, finish])).toEqual([
    ['Paris', ['stop']],
    ['', ['tool_calls']],
    ['Os', ['length']],
  ]);
});

test('ends the stream with an error if one of several choices is incomplete', async () => {
  streamOf([[candidate(0, text('Paris'), 'STOP')], [candidate(1, text('Ro'))]]);
  const stream = await gateway.stream(request);
  expect(stream.doneCount).toBe(0);
  expect(stream.error).toMatchObject({
    message: "The provider's response was interrupted.",
    code: 502,
  });
});

test('returns only choice 0 to a client that requested one choice', async () => {
  answer(cities);
  const reply = await gateway.post({ ...request, n: 1 });
  expect(configSent().candidateCount).toBeUndefined();
  expect(reply.json.choices).toMatchObject([{ index: 0, message: { content: 'Paris' } }]);
  streamOf([[candidate(3, text('Oslo'))], [candidate(0, text('Paris'), 'STOP')]]);
  const stream = await gateway.stream({ ...request, n: 1 });
  expect(choicesOf(stream.chunks).map(({ content }) => content)).toEqual(['Paris']);
  expect(stream.doneCount).toBe(1);
});

test('reports n as dropped if the provider is configured not to support it', async () => {
  answer(cities.slice(0, 1));
  const reply = await gateway.post({ ...request, model: 'acme/modest' });
  expect(configSent().candidateCount).toBeUndefined();
  expect(reply.headers.get('x-tollgate-dropped-params')).toBe('n');
  expect(reply.json.choices).toMatchObject([{ index: 0, message: { content: 'Paris' } }]);
});

test('divides the output that the balance can pay for by the number of choices', async () => {
  const lowBalance = await InProcessGateway.start({
    ...settings(),
    environment: { TOLLGATE_BOOTSTRAP_CREDITS: '3000' },
  });
  try {
    answer(cities);
    expect((await lowBalance.post({ ...request, n: 1 })).status).toBe(200);
    expect(configSent().maxOutputTokens).toBe(100);
    expect((await lowBalance.post(request)).status).toBe(200);
    // The first request cost 370 credits. The remaining 2,630 pay for at most 219 output tokens, or
    // 73 per choice. The input needs some of these credits.
    const limit = Number(configSent().maxOutputTokens);
    expect(limit).toBeLessThan(73);
    expect(limit).toBeGreaterThan(60);
  } finally {
    await lowBalance.stop();
  }
});
