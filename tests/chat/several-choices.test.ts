/** `n` at an upstream that has another name for it: several candidates are several choices. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** A dollar is a million credits: so many credits for each token. */
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
const text = (words: string) => [{ text: words }];
const call = [{ functionCall: { name: 'look', args: { city: 'Rome' } } }];
const cities = [
  candidate(undefined, text('Paris'), 'STOP'),
  candidate(2, text('Os'), 'MAX_TOKENS'),
  candidate(1, call, 'STOP'),
];

/** What the upstream was told about its answers. */
function configSent(): Record<string, unknown> {
  const asked = upstream.requests.at(-1)?.json;
  const config = isObject(asked) ? asked.generationConfig : undefined;
  return isObject(config) ? config : {};
}

const answer = (candidates: readonly object[]) =>
  upstream.script('gem-up', replay(JSON.stringify({ candidates, usageMetadata })));

function streamOf(chunks: readonly (readonly object[])[]): void {
  const events = chunks.map((candidates, at) => {
    const usage = at === chunks.length - 1 ? { usageMetadata } : {};
    return `data: ${JSON.stringify({ candidates, ...usage })}\n\n`;
  });
  upstream.script('gem-up', replay(events.join(''), { contentType: 'text/event-stream' }));
}

interface Told {
  content: string;
  called: string;
  finish: unknown[];
  roles: number;
}

/** The choices of a stream, put together by their numbers as a client does it. */
function heardChoices(chunks: readonly Record<string, unknown>[]): Told[] {
  const told: Told[] = [];
  for (const { choices } of chunks) {
    for (const choice of Array.isArray(choices) ? choices : []) {
      const { index, delta, finish_reason: reason } = choice;
      told[index] ??= { content: '', called: '', finish: [], roles: 0 };
      const own = told[index];
      own.content += delta.content ?? '';
      if (delta.role) own.roles += 1;
      for (const one of delta.tool_calls ?? []) own.called += one.function.arguments;
      if (reason !== null) own.finish.push(reason);
    }
  }
  return told;
}

test('are asked for, told by their numbers, and paid for as reported', async () => {
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
  // 5 tokens in at 2 credits, 30 out at 12.
  expect(reply.json.usage).toMatchObject({ completion_tokens: 30, cost: 370 });
  const record = await gateway.record(reply.requestId);
  expect([record.charges.modelCharge, record.finishReason]).toEqual([370, 'stop']);
});

test('are known by their numbers wherever they stand, also the one that has none', async () => {
  answer(cities.toReversed());
  const reply = await gateway.post(request);
  expect(reply.json.choices).toMatchObject([
    { index: 0, message: { content: 'Paris' }, finish_reason: 'stop' },
    { index: 1, finish_reason: 'tool_calls' },
    { index: 2, message: { content: 'Os' }, finish_reason: 'length' },
  ]);
});

test('come in a stream however their pieces are mixed', async () => {
  streamOf([
    [candidate(1, text('Ro'))],
    [candidate(0, text('Pa')), candidate(1, text('me'))],
    [candidate(2, call, 'STOP')],
    [candidate(0, text('ris'), 'STOP')],
    [candidate(1, text('!'), 'MAX_TOKENS')],
  ]);
  const asked = { ...request, stream_options: { include_usage: true } };
  const heard = await gateway.stream(asked);
  expect(configSent().candidateCount).toBe(3);
  expect(heardChoices(heard.chunks)).toEqual([
    { content: 'Paris', called: '', finish: ['stop'], roles: 1 },
    { content: 'Rome!', called: '', finish: ['length'], roles: 1 },
    { content: '', called: '{"city":"Rome"}', finish: ['tool_calls'], roles: 1 },
  ]);
  expect(heard.dones).toBe(1);
  expect(heard.usage).toMatchObject({ completion_tokens: 30, cost: 370 });
});

test('come as a stream although the upstream said them at once', async () => {
  answer(cities);
  const heard = await gateway.stream(request);
  expect(heardChoices(heard.chunks).map(({ content, finish }) => [content, finish])).toEqual([
    ['Paris', ['stop']],
    ['', ['tool_calls']],
    ['Os', ['length']],
  ]);
});

test('are cut all together when one of them is', async () => {
  streamOf([[candidate(0, text('Paris'), 'STOP')], [candidate(1, text('Ro'))]]);
  const heard = await gateway.stream(request);
  expect(heard.dones).toBe(0);
  expect(heard.error).toMatchObject({
    message: "The provider's answer was interrupted.",
    code: 502,
  });
});

test('are not told to a client that asked for one', async () => {
  answer(cities);
  const reply = await gateway.post({ ...request, n: 1 });
  expect(configSent().candidateCount).toBeUndefined();
  expect(reply.json.choices).toMatchObject([{ index: 0, message: { content: 'Paris' } }]);
  streamOf([[candidate(3, text('Oslo'))], [candidate(0, text('Paris'), 'STOP')]]);
  const heard = await gateway.stream({ ...request, n: 1 });
  expect(heardChoices(heard.chunks).map(({ content }) => content)).toEqual(['Paris']);
  expect(heard.dones).toBe(1);
});

test('are left out where the operator says that the provider has none, and told so', async () => {
  answer(cities.slice(0, 1));
  const reply = await gateway.post({ ...request, model: 'acme/modest' });
  expect(configSent().candidateCount).toBeUndefined();
  expect(reply.headers.get('x-tollgate-dropped-params')).toBe('n');
  expect(reply.json.choices).toMatchObject([{ index: 0, message: { content: 'Paris' } }]);
});

test('count in what is set aside: each may be as long as all together can be paid', async () => {
  const poor = await InProcessGateway.start({
    ...settings(),
    environment: { TOLLGATE_BOOTSTRAP_CREDITS: '3000' },
  });
  try {
    answer(cities);
    expect((await poor.post({ ...request, n: 1 })).status).toBe(200);
    expect(configSent().maxOutputTokens).toBe(100);
    expect((await poor.post(request)).status).toBe(200);
    // 370 credits are gone: 2,630 pay for 219 tokens of output, 73 for each choice; some for input.
    const most = Number(configSent().maxOutputTokens);
    expect(most).toBeLessThan(73);
    expect(most).toBeGreaterThan(60);
  } finally {
    await poor.stop();
  }
});
