/**
 * Anthropic's SDK runs tools on a thread that the server keeps, and sends only what is new. Nothing
 * is kept here: it has to hear so, or models would answer to the result of a tool alone.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { callTools, chatAnswer } from '../support/fake-upstream.ts';
import { AnthropicRig, served } from './anthropic-rig.ts';

let rig: AnthropicRig;

beforeAll(async () => {
  rig = await AnthropicRig.start();
});

afterAll(async () => {
  await rig?.stop();
});

const weather = betaTool({
  name: 'weather',
  description: 'The weather of a town.',
  inputSchema: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'] },
  run: ({ town }) => `Rain in ${town}`,
});

test.each(served)('a tool runner tells $by the whole conversation', async (offer) => {
  const { model, upstreamModel } = offer;
  const call = { name: 'weather', arguments: { town: 'Bern' } };
  rig.upstream.script(upstreamModel, [callTools([call]), chatAnswer('Take a coat.')]);
  const client = new Anthropic({ baseURL: rig.baseURL, apiKey: rig.apiKey, maxRetries: 0 });
  const before = rig.upstream.requests.length;
  const answer = await client.beta.messages.toolRunner({
    model,
    max_tokens: 100,
    tools: [weather],
    messages: [{ role: 'user', content: 'How is Bern?' }],
  });
  expect(answer.content).toMatchObject([{ type: 'text', text: 'Take a coat.' }]);
  const [, second, ...more] = rig.upstream.requests.slice(before);
  expect(more).toEqual([]);
  const told = new TextDecoder().decode(second?.raw);
  expect(told).toContain('How is Bern?');
  expect(told).toContain('Rain in Bern');
  expect(told).not.toContain('"thread"');
});

test.each([{ type: 'create' }, { type: 'continue', previous_message_id: 'msg_1' }])(
  'a thread is refused with the code that clients know: %j',
  async (thread) => {
    const before = rig.upstream.requests.length;
    const answer = await fetch(`${rig.baseURL}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${rig.apiKey}` },
      body: JSON.stringify({
        model: 'acme/claude',
        max_tokens: 9,
        messages: [{ role: 'user', content: 'Hi' }],
        thread,
      }),
    });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message:
          "thread isn't supported, because this gateway doesn't store conversations. " +
          'Send all messages.',
        details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
      },
    });
    expect(rig.upstream.requests.length).toBe(before);
  },
);
