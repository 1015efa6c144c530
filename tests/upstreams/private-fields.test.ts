/** What a provider charges the operator, and the operator's account, stay with the operator. */
import { describe, expect, test } from 'bun:test';
import type { Recording } from '../../src/core/recording.ts';
import { noUsage } from '../../src/core/usage.ts';
import { clients, recorded } from '../support/chat-clients.ts';
import { identity } from '../support/reply-identity.ts';

/** A number and a word that only fields about the operator contain. */
const amount = 987_654.321;
const secret = 'operators-own';

const charges = {
  cost: amount,
  market_cost: amount,
  cost_details: { upstream_inference_cost: amount },
  cost_in_usd_ticks: amount,
  is_byok: secret,
  some_gateway: { cost_estimate: amount, price: { usd: amount } },
};
const account = {
  cost: { usd: amount },
  billing: { payer: secret },
  provider: secret,
  // Vercel's gateway has these fields in every format.
  provider_metadata: { gateway: { cost: amount, routing: secret } },
  providerMetadata: { gateway: { cost: amount, routing: secret } },
  copilot_usage: { total_nano_aiu: amount, token_details: [{ cost_per_batch: amount }] },
};
const providerMetadata = { gateway: { cost: amount, routing: secret }, google: { kept: true } };

const sse = (...events: object[]) =>
  events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');

const completion = { id: 'up', created: 1, model: 'up/large' };
const chatUsage = {
  ...{ prompt_tokens: 3, completion_tokens: 2, ...charges },
  completion_tokens_details: { reasoning_tokens: 0, cost_in_cents: 1 },
};
const delta = { role: 'assistant', content: 'Hi' };
const choiceOf = (fields: object) => ({ index: 0, ...fields, usage: charges });
const chatAnswers = {
  reply: JSON.stringify({
    ...{ ...completion, ...account, generationId: secret, usage: chatUsage },
    choices: [
      choiceOf({
        message: { ...delta, provider_metadata: providerMetadata },
        finish_reason: 'stop',
      }),
    ],
  }),
  stream: `${sse(
    ...[delta, { content: ' you' }, { provider_metadata: providerMetadata }].map((delta) => ({
      ...completion,
      ...account,
      choices: [choiceOf({ delta })],
    })),
    {
      ...{ ...completion, ...account },
      choices: [choiceOf({ delta: {}, finish_reason: 'stop' })],
    },
    { ...completion, ...account, choices: [], usage: chatUsage },
  )}data: [DONE]\n\n`,
};

const message = { id: 'up', type: 'message', role: 'assistant', model: 'up/large', ...account };
const messageUsage = {
  ...{ input_tokens: 3, output_tokens: 2, ...charges },
  iterations: [{ type: 'message', input_tokens: 3, output_tokens: 2, ...charges }],
};
const block = { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } };
const text = { type: 'text_delta', text: 'Hi' };
const messagesAnswers = {
  reply: JSON.stringify({
    ...{ ...message, stop_reason: 'end_turn', usage: messageUsage },
    content: [{ type: 'text', text: 'Hi' }],
  }),
  stream: sse(
    {
      type: 'message_start',
      message: { ...message, content: [], usage: messageUsage },
      ...charges,
    },
    { type: 'ping', ...charges },
    block,
    { type: 'content_block_delta', index: 0, delta: text },
    { type: 'content_block_stop', index: 0 },
    {
      ...{ type: 'message_delta', ...charges, usage: messageUsage },
      delta: { stop_reason: 'end_turn', stop_sequence: null },
    },
    { type: 'message_stop' },
  ),
};

const output = [
  {
    ...{ type: 'message', id: 'msg_up', role: 'assistant', status: 'completed' },
    content: [{ type: 'output_text', text: 'Hi', annotations: [] }],
  },
];
const response = {
  ...{ id: 'up', object: 'response', model: 'up/large', status: 'completed', ...account },
  ...{ output, usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5, ...charges } },
  tools: [{ type: 'function', name: 'buy', parameters: { properties: { cost: { kept: true } } } }],
};
const responsesAnswers = {
  reply: JSON.stringify(response),
  stream: sse(
    { type: 'response.created', response: { ...response, output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: { ...output[0], content: [] } },
    {
      ...{ type: 'response.output_text.delta', output_index: 0, content_index: 0 },
      ...{ item_id: 'msg_up', delta: 'Hi' },
    },
    { type: 'response.output_item.done', output_index: 0, item: output[0] },
    { type: 'response.metadata', sequence_number: 4, ...charges },
    { type: 'response.completed', response, ...charges },
  ),
};

const answers = {
  openai: chatAnswers,
  anthropic: messagesAnswers,
  'openai-responses': responsesAnswers,
};

type Client = keyof typeof clients;

/** Returns the answer that a client gets for this recording, at a charge of 42 credits. */
function replay(client: Client, stream: boolean, recording: Recording): string {
  const options = client === 'openai' && stream ? { stream_options: { include_usage: true } } : {};
  const relay = clients[client].operation(stream, options).replay(recording, identity);
  return relay?.write({ usage: noUsage, costCredits: 42 }) ?? '';
}

describe.each(Object.entries(answers))("A provider's charges in a %s answer", (dialect, forms) => {
  const cases = (['reply', 'stream'] as const).flatMap((form) =>
    Object.keys(clients).flatMap((name) =>
      [true, false].map((stream) => [name, stream ? 'stream' : 'reply', form] as const),
    ),
  );
  test.each(cases)("don't reach a client of %s that gets a %s from a %s", (name, to, form) => {
    const written = replay(name as Client, to === 'stream', recorded(dialect, form, forms[form]));
    expect(written).toContain('Hi');
    expect(written).not.toContain(String(amount));
    expect(written).not.toContain(secret);
    expect(written).not.toContain('up/large');
    expect(written).not.toMatch(/byok|nano_aiu|market|gateway|cost_/);
    const shown = [...written.matchAll(/"cost":([^{]*?)[,}]/g)].map(([, cost]) => cost);
    expect(shown).toEqual(name === 'anthropic' ? [] : ['42']);
  });
});

test("An OpenAI client gets the other fields next to a provider's charges", () => {
  for (const form of ['reply', 'stream'] as const) {
    const recording = recorded('openai', form, chatAnswers[form]);
    const written = replay('openai', form === 'stream', recording);
    expect(written).toContain('"provider_metadata":{"google":{"kept":true}}');
    expect(written).toContain('"provider":"acme"');
  }
});

test("A Responses client gets its own tools' schemas back unchanged", () => {
  const recording = recorded('openai-responses', 'reply', responsesAnswers.reply);
  const written = replay('responses', false, recording);
  expect(written).toContain('"properties":{"cost":{"kept":true}}');
});
