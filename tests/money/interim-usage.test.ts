/** Charges for streams whose provider reports usage before the last output, but not after it. */
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

const chunkOf = {
  openai: (content: string, count?: Count) => ({
    choices: [{ index: 0, delta: { content }, finish_reason: null }],
    ...(count && { usage: { prompt_tokens: count[0], completion_tokens: count[1] } }),
  }),
  gemini: (text: string, count?: Count) => ({
    candidates: [{ index: 0, content: { parts: [{ text }] } }],
    ...(count && { usageMetadata: { promptTokenCount: count[0], candidatesTokenCount: count[1] } }),
  }),
};

const finishOf = {
  openai: { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
  gemini: { candidates: [{ index: 0, content: { parts: [] }, finishReason: 'STOP' }] },
};

const clients = { chat: '/v1/chat/completions', messages: '/v1/messages' };
const cases = (['openai', 'gemini'] as const).flatMap((dialect) =>
  Object.entries(clients).map(([client, path]) => ({ dialect, client, path })),
);

const requestOf = (dialect: string, n = 1) => ({
  model: `test/${dialect}`,
  n,
  messages: [{ role: 'user', content: 'Count.' }],
  ...{ max_tokens: 1_000, stream: true },
});

type ScriptedAnswer = readonly [
  dialect: keyof typeof chunkOf,
  path: string,
  chunks: readonly object[],
  choices?: number,
];

async function chargeInterrupted(...answer: ScriptedAnswer) {
  const { text, ...charged } = await send(...answer);
  expect(text).toContain("The provider's response was interrupted.");
  return charged;
}

async function send(...[dialect, path, chunks, choices]: ScriptedAnswer) {
  upstream.script('chat', replay(asEvents(chunks), { contentType: 'text/event-stream' }));
  const { requestId, text } = await gateway.post(requestOf(dialect, choices), { path });
  const { charges, usageEstimated } = await gateway.record(requestId);
  return { text, charge: charges.modelCharge, usageEstimated };
}

test.each(cases)('$dialect to $client: charges output after the last usage', async (each) => {
  const { dialect, path } = each;
  const chunk = chunkOf[dialect];
  const chunks = [chunk('One', [10, 1]), chunk('x'.repeat(400))];
  // 10 input tokens, 1 counted output token, and 400 characters estimated as 100 tokens.
  expect(await chargeInterrupted(dialect, path, chunks)).toEqual({
    charge: 212,
    usageEstimated: true,
  });
});

test.each(cases)(
  '$dialect to $client: charges the usage that is reported with the last output',
  async (each) => {
    const { dialect, path } = each;
    const chunk = chunkOf[dialect];
    const chunks = [chunk('One', [10, 1]), chunk('x'.repeat(400), [10, 90])];
    expect(await chargeInterrupted(dialect, path, chunks)).toEqual({
      charge: 190,
      usageEstimated: false,
    });
  },
);

test.each(cases)('$dialect to $client: estimates all output if none was counted', async (each) => {
  const { dialect, path } = each;
  const chunk = chunkOf[dialect];
  const chunks = [chunk('x'.repeat(200), [10, 0]), chunk('x'.repeat(200))];
  // 10 input tokens, and 400 characters estimated as 100 tokens.
  expect(await chargeInterrupted(dialect, path, chunks)).toEqual({
    charge: 210,
    usageEstimated: true,
  });
});

test.each(cases)('$dialect to $client: ignores a later usage report of zeros', async (each) => {
  const { dialect, path } = each;
  const chunk = chunkOf[dialect];
  const chunks = [chunk('One', [10, 1]), chunk('x'.repeat(400), [0, 0])];
  // Some servers send zeros in every chunk without usage.
  expect(await chargeInterrupted(dialect, path, chunks)).toEqual({
    charge: 212,
    usageEstimated: true,
  });
});

test.each(cases)(
  '$dialect to $client: adds no estimate to a count that exceeds the estimate',
  async (each) => {
    const { dialect, path } = each;
    const chunk = chunkOf[dialect];
    const chunks = [chunk('One', [10, 500]), chunk('x'.repeat(400))];
    // The count exceeds the estimate, so it covers the complete answer or hidden reasoning.
    expect(await chargeInterrupted(dialect, path, chunks)).toEqual({
      charge: 1_010,
      usageEstimated: false,
    });
  },
);

test.each(cases)(
  '$dialect to $client: estimates a complete answer if only the prompt was counted',
  async (each) => {
    const { dialect, path } = each;
    const chunk = chunkOf[dialect];
    const chunks = [chunk('', [10, 0]), chunk('x'.repeat(400)), finishOf[dialect]];
    // 10 input tokens, and 400 characters estimated as 100 tokens.
    const expected = { charge: 210, usageEstimated: true };
    expect(await send(dialect, path, chunks)).toMatchObject(expected);
  },
);

test.each(cases)(
  '$dialect to $client: estimates output that the provider counts as 0 tokens',
  async (each) => {
    const { dialect, path } = each;
    const chunk = chunkOf[dialect];
    const chunks = [chunk('', [10, 0]), chunk('x'.repeat(400), [10, 0]), finishOf[dialect]];
    const expected = { charge: 210, usageEstimated: true };
    expect(await send(dialect, path, chunks)).toMatchObject(expected);
  },
);

test.each(cases)(
  '$dialect to $client: charges output after counted text with few characters per token',
  async (each) => {
    const { dialect, path } = each;
    const chunk = chunkOf[dialect];
    const chunks = [chunk('好'.repeat(400), [10, 300]), chunk('好'.repeat(400))];
    // 10 input tokens, 300 counted output tokens, and 400 characters estimated as 100 tokens.
    expect(await chargeInterrupted(dialect, path, chunks)).toEqual({
      charge: 810,
      usageEstimated: true,
    });
  },
);

const secondChoice = {
  openai: { choices: [{ index: 1, delta: { content: 'x'.repeat(400) }, finish_reason: null }] },
  gemini: { candidates: [{ index: 1, content: { parts: [{ text: 'x'.repeat(400) }] } }] },
};

test.each(['openai', 'gemini'] as const)(
  '%s: charges output of the second choice after the first has ended',
  async (dialect) => {
    const chunks = [chunkOf[dialect]('One', [10, 1]), finishOf[dialect], secondChoice[dialect]];
    const expected = { charge: 212, usageEstimated: true };
    expect(await chargeInterrupted(dialect, clients.chat, chunks, 2)).toEqual(expected);
  },
);

test('an answer of several choices is complete when the last one has ended', async () => {
  const { gemini } = finishOf;
  const [second] = secondChoice.gemini.candidates;
  const last = { candidates: [{ ...second, finishReason: 'STOP' }] };
  const chunks = [chunkOf.gemini('One', [10, 1]), gemini, last];
  const expected = { charge: 12, usageEstimated: false };
  expect(await send('gemini', clients.chat, chunks, 2)).toMatchObject(expected);
});

test('a client that disconnects pays for output after the last usage', async () => {
  const chunks = asEvents([chunkOf.openai('One', [10, 1]), chunkOf.openai('x'.repeat(400))]);
  const events = { contentType: 'text/event-stream', piece: 'event by event' as const };
  upstream.script('chat', hangMidStream(2, replay(chunks, events)));
  const client = new AbortController();
  const response = await gateway.fetch(requestOf('openai'), { signal: client.signal });
  let received = '';
  for await (const piece of response.body ?? []) {
    received += Buffer.from(piece).toString();
    if (received.includes('xxx')) break;
  }
  client.abort();
  const { charges } = await gateway.record(response.headers.get('x-request-id') ?? '');
  expect(charges.modelCharge).toBe(212);
});
