/**
 * OpenAI's Responses endpoint repeats the instructions and tools of the request twice before the
 * answer starts. A coding agent sends 40 kB of them.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { hangMidStream, replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { streamOf } from '../support/response-events.ts';

const timeoutMs = 120_000;
const upstream = startFakeUpstream();
let gateway: Gateway;

beforeAll(async () => {
  gateway = await startGateway({
    upstreams: {
      fake: {
        url: upstream.url,
        dialect: 'openai-responses',
        models: { 'test/agent': { prompt: '1', completion: '1' } },
      },
    },
  });
}, timeoutMs);

afterAll(async () => {
  await gateway?.stop();
  upstream.stop();
}, timeoutMs);

const usage = { input_tokens: 1000, output_tokens: 50, total_tokens: 1050 };

function answer(instructions: string) {
  const content = [{ type: 'output_text', text: 'Here I am.' }];
  const output = [{ type: 'message', id: 'msg_1', role: 'assistant', content }];
  return { id: 'resp_1', model: 'agent', status: 'completed', instructions, output, usage };
}

const eventStream = { contentType: 'text/event-stream', piece: 'event by event' } as const;
const request = { model: 'test/agent', input: 'Hello', stream: true };

test(
  'forwards an answer after a large opening and charges it once',
  async () => {
    const stream = streamOf(answer('Be brief. '.repeat(4_000)));
    upstream.script('agent', [replay(stream, { ...eventStream, delayMs: 20 })]);
    const before = await gateway.balance();
    const call = { key: gateway.keys.api, body: request };
    const { status, text } = await gateway.call('POST', '/v1/responses', call);
    expect(status).toBe(200);
    expect(text).toContain('"text":"Here I am."');
    expect(text.match(/^event: response\.(created|in_progress|completed)$/gm)).toEqual([
      'event: response.created',
      'event: response.in_progress',
      'event: response.completed',
    ]);
    expect(before - (await gateway.balance())).toBe(1050);
    expect(upstream.requests.length).toBe(1);
  },
  timeoutMs,
);

test(
  'rejects an opening that never ends and charges nothing',
  async () => {
    const opening = { response: { id: 'resp_1', instructions: 'x'.repeat(3_000_000) } };
    const event = `data: ${JSON.stringify({ type: 'response.in_progress', ...opening })}\n\n`;
    upstream.script('agent', [hangMidStream(3, replay(event.repeat(4), eventStream))]);
    const before = await gateway.balance();
    const call = { key: gateway.keys.api, body: request };
    const { status, body } = await gateway.call('POST', '/v1/responses', call);
    expect(status).toBe(502);
    expect(body).toMatchObject({ error: { type: 'upstream_error' } });
    expect(await gateway.balance()).toBe(before);
  },
  timeoutMs,
);
