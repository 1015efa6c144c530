/** Upstreams that have said everything, in the words of their protocol, and hold the line. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { ActiveClock } from '../support/active-clock.ts';
import {
  type Behavior,
  hangMidStream,
  replay,
  startFakeUpstream,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { discrepancies } from '../support/ledger-check.ts';
import {
  checkAnthropicStream,
  checkOpenAiStream,
  checkResponsesStream,
} from '../support/stream-checks.ts';
import { streamFormats } from '../support/upstream-streams.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** A dollar is a million credits: so many credits for each token. */
const pricing = { prompt: '2', completion: '12', cache_read: '1' };

beforeAll(async () => {
  const base = { base_url: `${upstream.url}/v1`, api_key: 'upstream-key' };
  const modelAt = (provider: string) =>
    chatModel(`acme/${provider}`, [{ provider, model: `${provider}-up`, pricing }]);
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      openai: { ...base, dialect: 'openai' },
      anthropic: { ...base, dialect: 'anthropic' },
      responses: { ...base, dialect: 'openai-responses' },
    },
    models: [modelAt('openai'), modelAt('anthropic'), modelAt('responses')],
  });
});
afterAll(async () => {
  expect(await discrepancies(gateway.store.database)).toEqual([]);
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const messages = [{ role: 'user', content: 'Weather?' }];
const clients = [
  ['chat', '/v1/chat/completions', { messages }, checkOpenAiStream],
  ['messages', '/v1/messages', { messages, max_tokens: 100 }, checkAnthropicStream],
  ['responses', '/v1/responses', { input: 'Weather?' }, checkResponsesStream],
] as const;
const kinds = ['openai', 'anthropic', 'responses'] as const;
const pairs = kinds.flatMap((kind) => clients.map((client) => [kind, ...client] as const));

/** Nothing here waits for what may follow a finish, which would be five seconds. */
const soonMs = 3_000;

function allOf(text: string): { readonly whole: Behavior; readonly events: number } {
  const whole = replay(text, { contentType: 'text/event-stream', piece: 'event by event' });
  return { whole, events: text.split('\n\n').length - 1 };
}

async function streamed(kind: string, path: string, body: object) {
  using activeClock = new ActiveClock();
  const asked = { model: `acme/${kind}`, ...body, stream: true };
  const response = await gateway.fetch(asked, { path });
  const text = await response.text();
  return { text, tookMs: activeClock.ms, requestId: response.headers.get('x-request-id') ?? '' };
}

describe.each(pairs)('%s, heard by a client of %s', (kind, _, path, body, check) => {
  const spoken = streamFormats[kind]({ text: 'Rain in Oslo.' });

  test('is over with its terminator, though its connection stays open', async () => {
    const { whole, events } = allOf(spoken);
    upstream.script(`${kind}-up`, hangMidStream(events, whole));
    const { text, tookMs, requestId } = await streamed(kind, path, body);
    expect(check(text)).toMatchObject({ ended: 'complete', text: 'Rain in Oslo.' });
    expect(tookMs).toBeLessThan(soonMs);
    const record = await gateway.record(requestId);
    // 60 tokens in at 2 credits, 40 from the cache at 1, and 20 out at 12.
    expect(record.charges.modelCharge).toBe(400);
    expect(record).toMatchObject({ status: 'success', usageEstimated: false, cancelled: false });
    // The upstream sees that nobody listens any more, and the connection is not used again.
    const first = await upstream.until((requests) => requests.find(hasLeft));
    upstream.script(`${kind}-up`, whole);
    await streamed(kind, path, body);
    expect(upstream.requests.at(-1)?.connection).not.toBe(first.connection);
  });

  test('keeps its connection for the next where it closes in good order', async () => {
    upstream.script(`${kind}-up`, allOf(spoken).whole);
    for (const _turn of [1, 2, 3]) await streamed(kind, path, body);
    const connections = new Set(upstream.requests.map(({ connection }) => connection));
    expect([upstream.requests.length, connections.size]).toEqual([3, 1]);
  });
});

const hasLeft = ({ outcome }: { readonly outcome: string }) => outcome === 'client-disconnected';

describe('a [DONE] where no answer was', () => {
  const chunk = (delta: object) => {
    const choices = [{ index: 0, delta, finish_reason: null }];
    return `data: ${JSON.stringify({ id: 'up', object: 'chat.completion.chunk', choices })}\n\n`;
  };
  const done = 'data: [DONE]\n\n';

  test.each(clients)('is no answer at once, too: %s', async (_, path, body) => {
    const { whole, events } = allOf(chunk({ role: 'assistant' }) + done);
    upstream.script('openai-up', hangMidStream(events, whole));
    using activeClock = new ActiveClock();
    const refused = await gateway.post({ model: 'acme/openai', ...body, stream: true }, { path });
    expect(refused.status).toBe(502);
    expect(String(refused.error.message)).toContain('sent an invalid answer');
    expect(activeClock.ms).toBeLessThan(soonMs);
  });

  test.each(clients)('behind half an answer is a cut one: %s', async (_, path, body, check) => {
    const { whole, events } = allOf(chunk({ content: 'Rain in' }) + done);
    upstream.script('openai-up', hangMidStream(events, whole));
    const { text, tookMs, requestId } = await streamed('openai', path, body);
    expect(check(text)).toMatchObject({ ended: 'error' });
    expect(text).toMatch(/Rain in.*answer was interrupted/s);
    expect(tookMs).toBeLessThan(soonMs);
    expect(await gateway.record(requestId)).toMatchObject({ status: 'error' });
  });
});
