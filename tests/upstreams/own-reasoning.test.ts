/** A model of the operator's own that reasons, as its `features` say, and says no more about it. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { readFixture } from '../support/upstream-conformance.ts';

/** What the effort `low` becomes at models that have these names at their provider. */
const byName: Readonly<Record<string, object>> = {
  'claude-sonnet-4-5': { thinking: { type: 'enabled', budget_tokens: 2_048 } },
  'claude-opus-4-20250514': { thinking: { type: 'enabled', budget_tokens: 2_048 } },
  'claude-4-sonnet-20250514': { thinking: { type: 'enabled', budget_tokens: 2_048 } },
  'claude-3-7-sonnet-20250219': { thinking: { type: 'enabled', budget_tokens: 2_048 } },
  'claude-opus-4-6': {
    thinking: { type: 'adaptive', display: 'summarized' },
    output_config: { effort: 'low' },
  },
  'claude-epic-9': {
    thinking: { type: 'adaptive', display: 'summarized' },
    output_config: { effort: 'low' },
  },
  'glm-7': {},
  'gemini-2.5-flash-lite': { thinkingConfig: { thinkingBudget: 1_024, includeThoughts: true } },
  'gemini-3.9-pro': { thinkingConfig: { thinkingLevel: 'low', includeThoughts: true } },
  'gemini-flash-latest': { thinkingConfig: { thinkingLevel: 'low', includeThoughts: true } },
  'gemma-4': {},
};

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const base_url = `${upstream.url}/v1`;
  const endpoints = [{ provider: 'answers', model: 'ans-up' }];
  const called = Object.keys(byName);
  gateway = await InProcessGateway.start({
    providers: {
      answers: { dialect: 'openai-responses', base_url, api_key: 'answers-key' },
      claude: { dialect: 'anthropic', base_url, api_key: 'claude-key' },
      gemini: { dialect: 'gemini', base_url, api_key: 'gemini-key' },
    },
    models: [
      chatModel('acme/thinker', endpoints),
      chatModel('acme/talker', endpoints, { features: ['tools'] }),
      ...called.map((model) => {
        const provider = /gem/.test(model) ? 'gemini' : 'claude';
        return chatModel(`acme/${model}`, [{ provider, model }]);
      }),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

/** What a provider of OpenAI's Responses is asked for by a client of each kind. */
async function askedFor(model: string, path: string): Promise<unknown[]> {
  upstream.script('ans-up', replay(readFixture('openai/responses-tool-final.json')));
  const effort = { reasoning: { effort: 'low' } };
  const body = path.includes('responses')
    ? { model, input: 'Think.', ...effort }
    : { model, messages: [{ role: 'user', content: 'Think.' }], ...effort };
  const reply = await gateway.post(body, { path });
  expect(reply.status).toBe(200);
  const sent = upstream.requests[0]?.json as {
    reasoning?: { effort?: string };
    include?: string[];
  };
  return [sent.reasoning?.effort, sent.include];
}

const paths = ['/v1/chat/completions', '/v1/responses'];

test.each(paths)('is asked for the effort that a client wants: %s', async (path) => {
  expect(await askedFor('acme/thinker', path)).toEqual(['low', ['reasoning.encrypted_content']]);
});

test.each(paths)('is not where its features do not say so: %s', async (path) => {
  expect(await askedFor('acme/talker', path)).toEqual([undefined, undefined]);
});

test.each(Object.entries(byName))('is asked as its name tells: %s', async (model, words) => {
  const recording = /gem/.test(model)
    ? 'gemini/tool-signature-followup.json'
    : 'anthropic/cache-read.json';
  upstream.script(model, replay(readFixture(recording)));
  const messages = [{ role: 'user', content: 'Think.' }];
  const reply = await gateway.post({ model: `acme/${model}`, messages, reasoning_effort: 'low' });
  expect(reply.status).toBe(200);
  const sent = upstream.requests[0]?.json as Record<string, object>;
  const told = ['thinking', 'output_config', 'thinkingConfig'];
  const all = Object.entries({ ...sent, ...sent.generationConfig });
  expect(Object.fromEntries(all.filter(([name]) => told.includes(name)))).toEqual({ ...words });
  const dropped = Object.keys(words).length > 0 ? null : 'reasoning';
  expect(reply.headers.get('x-tollgate-dropped-params')).toBe(dropped);
});
