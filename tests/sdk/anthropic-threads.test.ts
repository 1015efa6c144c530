/**
 * Anthropic's SDK prefers to create a thread on the server and then to send only new messages. This
 * gateway doesn't store threads. An error must say so, or models would see only the tool result.
 */
import { expect, test } from 'bun:test';
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { callTools, chatAnswer } from '../support/fake-upstream.ts';
import { modelsByDialect, useSdkGateway } from '../support/sdk-gateway.ts';

const sdk = await useSdkGateway();

const weather = betaTool({
  name: 'weather',
  description: 'The weather of a town.',
  inputSchema: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'] },
  run: ({ town }) => `Rain in ${town}`,
});

test.each(modelsByDialect)(
  'toolRunner of the Anthropic SDK sends all messages to an $dialect provider',
  async (offer) => {
    const { model, upstreamModel } = offer;
    const call = { name: 'weather', arguments: { town: 'Bern' } };
    sdk.upstream.script(upstreamModel, [callTools([call]), chatAnswer('Take a coat.')]);
    const client = new Anthropic(sdk.anthropicOptions);
    const before = sdk.upstream.requests.length;
    const answer = await client.beta.messages.toolRunner({
      model,
      max_tokens: 100,
      tools: [weather],
      messages: [{ role: 'user', content: 'How is Bern?' }],
    });
    expect(answer.content).toMatchObject([{ type: 'text', text: 'Take a coat.' }]);
    const [, second, ...more] = sdk.upstream.requests.slice(before);
    expect(more).toEqual([]);
    const sent = new TextDecoder().decode(second?.raw);
    expect(sent).toContain('How is Bern?');
    expect(sent).toContain('Rain in Bern');
    expect(sent).not.toContain('"thread"');
  },
);

test.each([{ type: 'create' }, { type: 'continue', previous_message_id: 'msg_1' }])(
  'a request with the thread %j returns the error code that the Anthropic SDK expects',
  async (thread) => {
    const before = sdk.upstream.requests.length;
    const answer = await fetch(`${sdk.anthropicBaseURL}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${sdk.apiKey}` },
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
    expect(sdk.upstream.requests.length).toBe(before);
  },
);
