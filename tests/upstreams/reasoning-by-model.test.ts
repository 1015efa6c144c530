/** Reasoning options for an operator's own models, which are recognized by feature and name. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { readFixture } from '../support/upstream-conformance.ts';

/** The fields that the effort `low` is converted to, by upstream model. */
const fieldsByModel: Readonly<Record<string, object>> = {
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
  const upstreamModels = Object.keys(fieldsByModel);
  gateway = await InProcessGateway.start({
    providers: {
      answers: { dialect: 'openai-responses', base_url, api_key: 'answers-key' },
      claude: { dialect: 'anthropic', base_url, api_key: 'claude-key' },
      gemini: { dialect: 'gemini', base_url, api_key: 'gemini-key' },
    },
    models: [
      chatModel('acme/thinker', endpoints),
      chatModel('acme/talker', endpoints, { features: ['tools'] }),
      ...upstreamModels.map((model) => {
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

/** Returns the reasoning options that a Responses upstream receives. */
async function sentReasoning(model: string, path: string): Promise<unknown[]> {
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

test.each(paths)(
  'a model with the reasoning feature receives the effort from a request to %s',
  async (path) => {
    expect(await sentReasoning('acme/thinker', path)).toEqual([
      'low',
      ['reasoning.encrypted_content'],
    ]);
  },
);

test.each(paths)(
  'a model without the reasoning feature receives no effort from a request to %s',
  async (path) => {
    expect(await sentReasoning('acme/talker', path)).toEqual([undefined, undefined]);
  },
);

test.each(Object.entries(fieldsByModel))(
  '%s receives the effort low as %j',
  async (model, fields) => {
    const recording = /gem/.test(model)
      ? 'gemini/tool-signature-followup.json'
      : 'anthropic/cache-read.json';
    upstream.script(model, replay(readFixture(recording)));
    const messages = [{ role: 'user', content: 'Think.' }];
    const reply = await gateway.post({ model: `acme/${model}`, messages, reasoning_effort: 'low' });
    expect(reply.status).toBe(200);
    const sent = upstream.requests[0]?.json as Record<string, object>;
    const reasoningFields = ['thinking', 'output_config', 'thinkingConfig'];
    const sentFields = Object.entries({ ...sent, ...sent.generationConfig });
    expect(
      Object.fromEntries(sentFields.filter(([name]) => reasoningFields.includes(name))),
    ).toEqual({ ...fields });
    const dropped = Object.keys(fields).length > 0 ? null : 'reasoning';
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe(dropped);
  },
);
