/**
 * OpenRouter labels encrypted reasoning with the format of its vendor. When a conversation moves
 * between providers, each vendor receives only its own reasoning. Anthropic rejects any other.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { chatAnswer, json, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const base_url = `${upstream.url}/v1`;
  const quirks = { replay_reasoning: 'reasoning_details' };
  const claude = { dialect: 'anthropic', base_url, api_key: 'key' };
  gateway = await InProcessGateway.start({
    providers: { router: { ...claude, dialect: 'openai', quirks }, claude },
    models: ['router', 'claude'].map((name) =>
      chatModel(`acme/${name}`, [{ provider: name, model: `${name}-up` }]),
    ),
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => {
  upstream.reset();
  upstream.script('*', chatAnswer('Fine.'));
});

const encrypted = (format: string) => ({ type: 'reasoning.encrypted', data: 'QUJD', format });
const google = encrypted('google-gemini-v1');
const anthropic = encrypted('anthropic-claude-v1');
const question = { role: 'user', content: 'Hello!' };

/** Returns the assistant message in the last request. */
function answerSent() {
  const sent = upstream.requests.at(-1)?.json as
    | { readonly messages: readonly object[] }
    | undefined;
  return sent?.messages[1];
}

test("Anthropic receives only its own encrypted reasoning from a chat client's history", async () => {
  for (const [detail, sent] of [
    [google, [{ type: 'text', text: 'Hi' }]],
    [encrypted('next-k2.5 v1'), [{ type: 'text', text: 'Hi' }]],
    [
      anthropic,
      [
        { type: 'redacted_thinking', data: 'QUJD' },
        { type: 'text', text: 'Hi' },
      ],
    ],
  ] as const) {
    const answer = {
      role: 'assistant',
      content: 'Hi',
      reasoning_details: [{ ...detail, index: 0 }],
    };
    const messages = [question, answer, question];
    expect((await gateway.post({ model: 'acme/claude', messages })).status).toBe(200);
    expect(answerSent()).toMatchObject({ role: 'assistant', content: sent });
  }
});

test("encrypted reasoning in a Messages client's history returns only to its vendor", async () => {
  const post = (model: string, messages: readonly object[]) =>
    gateway.post({ model, max_tokens: 50, messages }, { path: '/v1/messages' });
  const message = { role: 'assistant', content: 'Hi', reasoning_details: [google] };
  const choices = [{ index: 0, message, finish_reason: 'stop' }];
  upstream.script('router-up', json(200, { choices }));
  const first = await post('acme/router', [question]);
  const content = first.json.content as readonly object[];
  expect(content).toMatchObject([{ type: 'redacted_thinking' }, { type: 'text', text: 'Hi' }]);
  const conversation = [question, { role: 'assistant', content }, question];
  expect((await post('acme/claude', conversation)).status).toBe(200);
  expect(answerSent()).toEqual({ role: 'assistant', content: [{ type: 'text', text: 'Hi' }] });
  expect((await post('acme/router', conversation)).status).toBe(200);
  expect(answerSent()).toMatchObject({ reasoning_details: [google] });
  const own = [{ type: 'redacted_thinking', data: 'QUJD' }, ...content.slice(1)];
  await post('acme/claude', [question, { role: 'assistant', content: own }, question]);
  expect(answerSent()).toEqual({ role: 'assistant', content: own });
});
