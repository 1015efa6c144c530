/**
 * The newest parameters of Anthropic's API, as its SDK sends them. They reach Anthropic unchanged.
 * Other providers receive an equivalent, or the parameter is reported as dropped.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { chatAnswer, json, startFakeUpstream } from '../support/fake-upstream.ts';
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
const withInstruction = (fields: object) => ({ messages: [hi, { role: 'system', ...fields }] });

function send(model: string, more: object) {
  const body = { model: `acme/${model}`, max_tokens: 50, messages: [hi], ...more };
  return gateway.post(body, { path: '/v1/messages' });
}

function sentBody(): Readonly<Record<string, unknown>> {
  const body = upstream.requests.at(-1)?.json;
  return isObject(body) ? body : {};
}

const taskBudget = { task_budget: { type: 'tokens', total: 20_000 } };
const removal = { type: 'tool_removal', tool: { type: 'tool_reference', name: 'look' } };

/** Request fields, the dropped parameters for OpenAI, and the fields that OpenAI receives. */
const cases: readonly [string, object, string | null, object][] = [
  [
    'thinking between tools',
    { thinking: { type: 'between_tools' } },
    null,
    { reasoning_effort: 'low' },
  ],
  [
    'thinking between tools with an effort',
    { thinking: { type: 'between_tools' }, output_config: { effort: 'high' } },
    null,
    { reasoning_effort: 'high' },
  ],
  [
    'thinking with display updates',
    { thinking: { type: 'adaptive', display: 'updates' }, output_config: { effort: 'low' } },
    null,
    { reasoning_effort: 'low' },
  ],
  ['a task budget', { output_config: taskBudget }, 'output_config.task_budget', {}],
  [
    'an effort in a system message',
    withInstruction({ output_config: { effort: 'low' } }),
    'messages.output_config',
    { messages: [hi] },
  ],
  [
    'an instruction for one turn',
    withInstruction({ content: 'Be brief.', clear_at: 'next_user_message' }),
    'messages.clear_at',
    { messages: [hi, { role: 'system', content: 'Be brief.' }] },
  ],
  [
    'a tool in a system message',
    withInstruction({ content: [{ type: 'text', text: 'Look it up.' }, added(look)] }),
    null,
    {
      messages: [hi, { role: 'system', content: 'Look it up.' }],
      tools: [{ type: 'function', function: { name: 'look', parameters: look.input_schema } }],
    },
  ],
  [
    'a redefined tool in a system message',
    {
      tools: [look],
      ...withInstruction({ content: [added({ ...look, description: 'Closely.' })] }),
    },
    null,
    { messages: [hi], tools: [{ function: { name: 'look', description: 'Closely.' } }] },
  ],
  [
    'a tool in a conversation summary',
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
    'a removed tool',
    { tools: [look], ...withInstruction({ content: [removal] }) },
    'messages.tool_removal',
    { messages: [hi] },
  ],
  [
    'a tool that Anthropic runs',
    withInstruction({
      content: [added({ type: 'tool_search_tool_regex_20251119', name: 'tool_search' })],
    }),
    'messages.tool_addition',
    { messages: [hi] },
  ],
  [
    'a tool that Anthropic defines and the client runs',
    withInstruction({ content: [added({ type: 'memory_20250818', name: 'memory' })] }),
    null,
    { messages: [hi], tools: [{ type: 'function', function: { name: 'memory' } }] },
  ],
];

describe.each(cases)('%s', (_, fields, dropped, openAiFields) => {
  test('reaches Anthropic unchanged', async () => {
    const reply = await send('claude', fields);
    expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([200, null]);
    expect(sentBody()).toMatchObject(fields);
  });

  test('is translated for OpenAI if there is an equivalent, and reported as dropped otherwise', async () => {
    const reply = await send('gpt', fields);
    expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([200, dropped]);
    expect(sentBody()).toMatchObject(openAiFields);
  });
});

test('tool changes in instructions are reported as dropped if the model accepts only the system field', async () => {
  const text = { type: 'text', text: 'Look it up.' };
  const content = [text, added(look), removal];
  const reply = await send('old', withInstruction({ content, clear_at: 'never' }));
  expect(reply.headers.get('x-tollgate-dropped-params')).toBe(
    'messages.tool_addition, messages.tool_removal, messages.clear_at',
  );
  expect(sentBody()).toMatchObject({ system: [text], messages: [hi] });
});

test.each([
  ['user', { role: 'user', output_config: { effort: 'low' } }],
  ['system', { role: 'system' }],
])('a %s message without content is rejected', async (_, message) => {
  const { status, error } = await send('claude', { messages: [hi, message] });
  expect(status).toBe(400);
  expect(error.message).toBe('messages[1].content is required (a string or a list).');
});

describe('max_tokens: 0', () => {
  const cacheOnlyAnswer = {
    ...{ id: 'msg_up', type: 'message', role: 'assistant', model: 'claude-up', content: [] },
    ...{ stop_reason: 'max_tokens', stop_sequence: null },
    usage: { input_tokens: 10, cache_creation_input_tokens: 500, output_tokens: 0 },
  };

  test("fills Anthropic's cache and is charged for it", async () => {
    upstream.script('claude-up', json(200, cacheOnlyAnswer));
    const reply = await send('claude', { max_tokens: 0 });
    expect([reply.status, reply.json.content, sentBody().max_tokens]).toEqual([200, [], 0]);
    // 10 × 1 + 500 × 2
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(1_010);
  });

  test('becomes 1 for OpenAI', async () => {
    expect((await send('gpt', { max_tokens: 0 })).status).toBe(200);
    expect(sentBody().max_completion_tokens ?? sentBody().max_tokens).toBe(1);
  });

  test('is the lowest value that is accepted', async () => {
    const { status, error } = await send('claude', { max_tokens: -1 });
    expect([status, String(error.message).startsWith('max_tokens must')]).toEqual([400, true]);
  });
});
