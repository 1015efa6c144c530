/** Upstreams that send their stream's terminator but keep the connection open. */
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
import { readStreamText } from '../support/sse-client.ts';
import {
  checkAnthropicStream,
  checkOpenAiStream,
  checkResponsesStream,
} from '../support/stream-checks.ts';
import { streamFormats } from '../support/upstream-streams.ts';
import { within } from '../support/wait-until.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** $1 is 1,000,000 credits, so prices per million tokens are also credits per token. */
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

/** Less than the 5 seconds that the gateway waits for more events after a finish reason. */
const soonMs = 3_000;

function scriptOf(text: string): { readonly behavior: Behavior; readonly events: number } {
  const behavior = replay(text, { contentType: 'text/event-stream', piece: 'event by event' });
  return { behavior, events: text.split('\n\n').length - 1 };
}

async function streamed(kind: string, path: string, body: object) {
  using activeClock = new ActiveClock();
  const request = { model: `acme/${kind}`, ...body, stream: true };
  const response = await gateway.fetch(request, { path });
  const text = await within(readStreamText(response), 'the end of the stream');
  return { text, tookMs: activeClock.ms, requestId: response.headers.get('x-request-id') ?? '' };
}

describe.each(pairs)('a stream from %s to a client of %s', (kind, _, path, body, check) => {
  const streamText = streamFormats[kind]({ text: 'Rain in Oslo.' });

  test('ends at its terminator even if the upstream keeps the connection open', async () => {
    const { behavior, events } = scriptOf(streamText);
    upstream.script(`${kind}-up`, hangMidStream(events, behavior));
    const { text, tookMs, requestId } = await streamed(kind, path, body);
    expect(check(text)).toMatchObject({ ended: 'complete', text: 'Rain in Oslo.' });
    expect(tookMs).toBeLessThan(soonMs);
    const record = await gateway.record(requestId);
    // 60 input tokens at 2 credits, 40 cached tokens at 1, and 20 output tokens at 12.
    expect(record.charges.modelCharge).toBe(400);
    expect(record).toMatchObject({ status: 'success', usageEstimated: false, cancelled: false });
    // The gateway closes the connection to the upstream and doesn't reuse it.
    const first = await upstream.until((requests) => requests.find(isDisconnected));
    upstream.script(`${kind}-up`, behavior);
    await streamed(kind, path, body);
    expect(upstream.requests.at(-1)?.connection).not.toBe(first.connection);
  });

  test('keeps its upstream connection for reuse if the upstream ends the stream normally', async () => {
    upstream.script(`${kind}-up`, scriptOf(streamText).behavior);
    for (const _turn of [1, 2, 3]) await streamed(kind, path, body);
    const connections = new Set(upstream.requests.map(({ connection }) => connection));
    expect([upstream.requests.length, connections.size]).toEqual([3, 1]);
  });
});

const isDisconnected = ({ outcome }: { readonly outcome: string }) =>
  outcome === 'client-disconnected';

describe('a [DONE] without a finish reason', () => {
  const chunk = (delta: object) => {
    const choices = [{ index: 0, delta, finish_reason: null }];
    return `data: ${JSON.stringify({ id: 'up', object: 'chat.completion.chunk', choices })}\n\n`;
  };
  const done = 'data: [DONE]\n\n';

  test.each(clients)(
    'fails the request at once if there was no content: client of %s',
    async (_, path, body) => {
      const { behavior, events } = scriptOf(chunk({ role: 'assistant' }) + done);
      upstream.script('openai-up', hangMidStream(events, behavior));
      using activeClock = new ActiveClock();
      const refused = await gateway.post({ model: 'acme/openai', ...body, stream: true }, { path });
      expect(refused.status).toBe(502);
      expect(String(refused.error.message)).toContain('sent an invalid response');
      expect(activeClock.ms).toBeLessThan(soonMs);
    },
  );

  test.each(clients)(
    'ends the stream with an error if there was some content: client of %s',
    async (_, path, body, check) => {
      const { behavior, events } = scriptOf(chunk({ content: 'Rain in' }) + done);
      upstream.script('openai-up', hangMidStream(events, behavior));
      const { text, tookMs, requestId } = await streamed('openai', path, body);
      expect(check(text)).toMatchObject({ ended: 'error' });
      expect(text).toMatch(/Rain in.*response was interrupted/s);
      expect(tookMs).toBeLessThan(soonMs);
      expect(await gateway.record(requestId)).toMatchObject({ status: 'error' });
    },
  );
});
