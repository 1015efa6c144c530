/** Usage that a provider told before its last words, and no more behind them. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { hangMidStream, replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const { url } = upstream;
  const api_key = 'sk-theirs-0123456789';
  const pricing = { prompt: '1', completion: '2' };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      open: { dialect: 'openai', base_url: `${url}/v1`, api_key },
      google: { dialect: 'gemini', base_url: `${url}/v1beta`, api_key },
    },
    models: [
      chatModel('test/openai', [{ provider: 'open', model: 'chat', pricing }]),
      chatModel('test/gemini', [{ provider: 'google', model: 'chat', pricing }]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

type Count = readonly [prompt: number, completion: number];

const asEvents = (chunks: readonly object[]) =>
  Buffer.from(chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join(''));

const words = {
  openai: (content: string, count?: Count) => ({
    choices: [{ index: 0, delta: { content }, finish_reason: null }],
    ...(count && { usage: { prompt_tokens: count[0], completion_tokens: count[1] } }),
  }),
  gemini: (text: string, count?: Count) => ({
    candidates: [{ index: 0, content: { parts: [{ text }] } }],
    ...(count && { usageMetadata: { promptTokenCount: count[0], candidatesTokenCount: count[1] } }),
  }),
};

const ends = {
  openai: { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
  gemini: { candidates: [{ index: 0, content: { parts: [] }, finishReason: 'STOP' }] },
};

const clients = { chat: '/v1/chat/completions', messages: '/v1/messages' };
const cases = (['openai', 'gemini'] as const).flatMap((dialect) =>
  Object.entries(clients).map(([client, path]) => ({ dialect, client, path })),
);

const asked = (dialect: string, n = 1) => ({
  model: `test/${dialect}`,
  n,
  messages: [{ role: 'user', content: 'Count.' }],
  ...{ max_tokens: 1_000, stream: true },
});

type Said = readonly [
  dialect: keyof typeof words,
  path: string,
  chunks: readonly object[],
  choices?: number,
];

async function bill(...said: Said) {
  const { text, ...billed } = await hear(...said);
  expect(text).toContain("The provider's answer was interrupted.");
  return billed;
}

async function hear(...[dialect, path, chunks, choices]: Said) {
  upstream.script('chat', replay(asEvents(chunks), { contentType: 'text/event-stream' }));
  const { requestId, text } = await gateway.post(asked(dialect, choices), { path });
  const { charges, usageEstimated } = await gateway.record(requestId);
  return { text, charge: charges.modelCharge, usageEstimated };
}

test.each(cases)('$dialect: $client pays what came behind it, too', async ({ dialect, path }) => {
  const say = words[dialect];
  const chunks = [say('One', [10, 1]), say('x'.repeat(400))];
  // 10 in; out the 1 that was counted, and 400 characters, a hundred by the estimate.
  expect(await bill(dialect, path, chunks)).toEqual({ charge: 212, usageEstimated: true });
});

test.each(cases)('$dialect: $client pays a count with its words as it is', async (each) => {
  const { dialect, path } = each;
  const say = words[dialect];
  const chunks = [say('One', [10, 1]), say('x'.repeat(400), [10, 90])];
  expect(await bill(dialect, path, chunks)).toEqual({ charge: 190, usageEstimated: false });
});

test.each(cases)('$dialect: $client pays all words where none were counted', async (each) => {
  const { dialect, path } = each;
  const say = words[dialect];
  const chunks = [say('x'.repeat(200), [10, 0]), say('x'.repeat(200))];
  // 10 in; out 400 characters, a hundred by the estimate: a count of the prompt is about none.
  expect(await bill(dialect, path, chunks)).toEqual({ charge: 210, usageEstimated: true });
});

test.each(cases)('$dialect: $client pays what came with zeros behind it, too', async (each) => {
  const { dialect, path } = each;
  const say = words[dialect];
  const chunks = [say('One', [10, 1]), say('x'.repeat(400), [0, 0])];
  // Some servers have them in every chunk that counts nothing.
  expect(await bill(dialect, path, chunks)).toEqual({ charge: 212, usageEstimated: true });
});

test.each(cases)('$dialect: $client pays no words twice that were counted before', async (each) => {
  const { dialect, path } = each;
  const say = words[dialect];
  const chunks = [say('One', [10, 500]), say('x'.repeat(400))];
  // More than all of the words come to: the count is of the whole answer, or of hidden thoughts.
  expect(await bill(dialect, path, chunks)).toEqual({ charge: 1_010, usageEstimated: false });
});

test.each(cases)(
  '$dialect: $client pays a whole answer of which none was counted',
  async (each) => {
    const { dialect, path } = each;
    const say = words[dialect];
    const chunks = [say('', [10, 0]), say('x'.repeat(400)), ends[dialect]];
    // 10 in; out 400 characters: what counts no word before the first is about the prompt alone.
    const due = { charge: 210, usageEstimated: true };
    expect(await hear(dialect, path, chunks)).toMatchObject(due);
  },
);

test.each(cases)(
  '$dialect: $client pays nothing for words that were counted as none',
  async (each) => {
    const { dialect, path } = each;
    const say = words[dialect];
    const chunks = [say('', [10, 0]), say('x'.repeat(400), [10, 0]), ends[dialect]];
    const due = { charge: 10, usageEstimated: false };
    expect(await hear(dialect, path, chunks)).toMatchObject(due);
  },
);

test.each(cases)('$dialect: $client pays what came behind words of many tokens', async (each) => {
  const { dialect, path } = each;
  const say = words[dialect];
  const chunks = [say('好'.repeat(400), [10, 300]), say('好'.repeat(400))];
  // 10 in; out the 300 that were counted, and 400 characters, a hundred by the estimate.
  expect(await bill(dialect, path, chunks)).toEqual({ charge: 810, usageEstimated: true });
});

const seconds = {
  openai: { choices: [{ index: 1, delta: { content: 'x'.repeat(400) }, finish_reason: null }] },
  gemini: { candidates: [{ index: 1, content: { parts: [{ text: 'x'.repeat(400) }] } }] },
};

test.each(['openai', 'gemini'] as const)(
  '%s: of several choices, words behind it are paid for when the first has ended, too',
  async (dialect) => {
    const chunks = [words[dialect]('One', [10, 1]), ends[dialect], seconds[dialect]];
    const said = { charge: 212, usageEstimated: true };
    expect(await bill(dialect, clients.chat, chunks, 2)).toEqual(said);
  },
);

test('of several choices, the last to end ends the answer: it costs what was counted', async () => {
  const { gemini } = ends;
  const [second] = seconds.gemini.candidates;
  const last = { candidates: [{ ...second, finishReason: 'STOP' }] };
  const chunks = [words.gemini('One', [10, 1]), gemini, last];
  const due = { charge: 12, usageEstimated: false };
  expect(await hear('gemini', clients.chat, chunks, 2)).toMatchObject(due);
});

test('a client that leaves behind it pays what it has heard, too', async () => {
  const chunks = asEvents([words.openai('One', [10, 1]), words.openai('x'.repeat(400))]);
  const events = { contentType: 'text/event-stream', piece: 'event by event' as const };
  upstream.script('chat', hangMidStream(2, replay(chunks, events)));
  const leaving = new AbortController();
  const response = await gateway.fetch(asked('openai'), { signal: leaving.signal });
  let heard = '';
  for await (const piece of response.body ?? []) {
    heard += Buffer.from(piece).toString();
    if (heard.includes('xxx')) break;
  }
  leaving.abort();
  const { charges } = await gateway.record(response.headers.get('x-request-id') ?? '');
  expect(charges.modelCharge).toBe(212);
});
