/**
 * The newest words of Anthropic's interface, as its SDK and those before it send them: they reach
 * Anthropic as they are, and other providers in their own words, or are named as left out.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { json, chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const at = (dialect: string) => ({ dialect, base_url: `${upstream.url}/v1`, api_key: 'k-op' });
  const pricing = { prompt: '1', completion: '10', cache_write: '2' };
  const quirks = { system_messages: 'merge' };
  gateway = await InProcessGateway.start({
    providers: { claude: at('anthropic'), gpt: at('openai'), old: { ...at('anthropic'), quirks } },
    models: ['claude', 'gpt', 'old'].map((provider) =>
      chatModel(`acme/${provider}`, [{ provider, model: `${provider}-up`, pricing }], {
        features: ['tools', 'reasoning'],
      }),
    ),
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => {
  upstream.reset();
  upstream.script('*', chatAnswer('Yes.'));
});

const hi = { role: 'user', content: 'Hi' };
const look = { name: 'look', input_schema: { type: 'object', properties: {} } };
const added = (definition: object) => ({
  type: 'tool_addition',
  tool: { type: 'tool_definition', definition },
});
const instructed = (fields: object) => ({ messages: [hi, { role: 'system', ...fields }] });

function ask(model: string, more: object) {
  const body = { model: `acme/${model}`, max_tokens: 50, messages: [hi], ...more };
  return gateway.post(body, { path: '/v1/messages' });
}

function sent(): Readonly<Record<string, unknown>> {
  const body = upstream.requests.at(-1)?.json;
  return isObject(body) ? body : {};
}

const taskBudget = { task_budget: { type: 'tokens', total: 20_000 } };
const removal = { type: 'tool_removal', tool: { type: 'tool_reference', name: 'look' } };

/** What is asked, what of it is named as left out elsewhere, and what is said there instead. */
const wishes: readonly [string, object, string | null, object][] = [
  [
    'the least of thinking',
    { thinking: { type: 'between_tools' } },
    null,
    { reasoning_effort: 'low' },
  ],
  [
    'the least of thinking, with some effort',
    { thinking: { type: 'between_tools' }, output_config: { effort: 'high' } },
    null,
    { reasoning_effort: 'high' },
  ],
  [
    'thoughts told now and then',
    { thinking: { type: 'adaptive', display: 'updates' }, output_config: { effort: 'low' } },
    null,
    { reasoning_effort: 'low' },
  ],
  ['a budget for a task', { output_config: taskBudget }, 'output_config.task_budget', {}],
  [
    'an effort from now on',
    instructed({ output_config: { effort: 'low' } }),
    'messages.output_config',
    { messages: [hi] },
  ],
  [
    'words for one turn',
    instructed({ content: 'Be brief.', clear_at: 'next_user_message' }),
    'messages.clear_at',
    { messages: [hi, { role: 'system', content: 'Be brief.' }] },
  ],
  [
    'a tool from now on',
    instructed({ content: [{ type: 'text', text: 'Look it up.' }, added(look)] }),
    null,
    {
      messages: [hi, { role: 'system', content: 'Look it up.' }],
      tools: [{ type: 'function', function: { name: 'look', parameters: look.input_schema } }],
    },
  ],
  [
    'a tool in other words from now on',
    { tools: [look], ...instructed({ content: [added({ ...look, description: 'Closely.' })] }) },
    null,
    { messages: [hi], tools: [{ function: { name: 'look', description: 'Closely.' } }] },
  ],
  [
    'a tool that a summary repeats',
    {
      messages: [
        hi,
        {
          role: 'assistant',
          content: [{ type: 'compaction', content: 'They met.', tool_changes: [added(look)] }],
        },
        hi,
      ],
    },
    null,
    {
      messages: [hi, { role: 'assistant', content: 'They met.' }, hi],
      tools: [{ type: 'function', function: { name: 'look', parameters: look.input_schema } }],
    },
  ],
  [
    'a tool no more',
    { tools: [look], ...instructed({ content: [removal] }) },
    'messages.tool_removal',
    { messages: [hi] },
  ],
  [
    'a tool of Anthropic’s own',
    instructed({ content: [added({ type: 'memory_20250818', name: 'memory' })] }),
    'messages.tool_addition',
    { messages: [hi] },
  ],
];

describe.each(wishes)('%s', (_, wish, dropped, instead) => {
  test('reaches Anthropic as it is', async () => {
    const reply = await ask('claude', wish);
    expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([200, null]);
    expect(sent()).toMatchObject(wish);
  });

  test('is said to others as far as they have words for it', async () => {
    const reply = await ask('gpt', wish);
    expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([200, dropped]);
    expect(sent()).toMatchObject(instead);
  });
});

test('what is more than words is named where instructions stand in front', async () => {
  const text = { type: 'text', text: 'Look it up.' };
  const content = [text, added(look), removal];
  const reply = await ask('old', instructed({ content, clear_at: 'never' }));
  expect(reply.headers.get('x-tollgate-dropped-params')).toBe(
    'messages.tool_addition, messages.tool_removal, messages.clear_at',
  );
  expect(sent()).toMatchObject({ system: [text], messages: [hi] });
});

test.each([
  ['user', { role: 'user', output_config: { effort: 'low' } }],
  ['system', { role: 'system' }],
])('a message of the %s that says nothing is refused', async (_, message) => {
  const { status, error } = await ask('claude', { messages: [hi, message] });
  expect(status).toBe(400);
  expect(error.message).toBe('messages[1].content is required (a string or a list).');
});

describe('no answer at all', () => {
  const warmed = {
    ...{ id: 'msg_up', type: 'message', role: 'assistant', model: 'claude-up', content: [] },
    ...{ stop_reason: 'max_tokens', stop_sequence: null },
    usage: { input_tokens: 10, cache_creation_input_tokens: 500, output_tokens: 0 },
  };

  test('warms the cache of Anthropic, for the price of that', async () => {
    upstream.script('claude-up', json(200, warmed));
    const reply = await ask('claude', { max_tokens: 0 });
    expect([reply.status, reply.json.content, sent().max_tokens]).toEqual([200, [], 0]);
    // 10 × 1 + 500 × 2
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(1_010);
  });

  test('is the shortest elsewhere', async () => {
    expect((await ask('gpt', { max_tokens: 0 })).status).toBe(200);
    expect(sent().max_completion_tokens ?? sent().max_tokens).toBe(1);
  });

  test('is not less than none', async () => {
    const { status, error } = await ask('claude', { max_tokens: -1 });
    expect([status, String(error.message).startsWith('max_tokens must')]).toEqual([400, true]);
  });
});
