/**
 * Mistral rejects messages in an order that its validator doesn't allow (mistral-common,
 * `_validate_message_order`). Coding agents send orders that OpenAI and Anthropic accept.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { builtinCatalog } from '../../src/config/catalog/index.ts';
import { fieldsOf, objectsIn } from '../../src/core/json.ts';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const shipped = builtinCatalog.providers.find(({ name }) => name === 'mistral');
  if (!shipped) throw new Error('Mistral is no longer in the catalog.');
  const { dialect, quirks = {} } = shipped;
  gateway = await InProcessGateway.start({
    providers: { mistral: { dialect, quirks, base_url: `${upstream.url}/v1`, api_key: 'key' } },
    models: [chatModel('acme/large', [{ provider: 'mistral', model: 'large-up' }])],
  });
  upstream.script('large-up', chatAnswer('Rain.'));
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

/** The roles that may follow each role. */
const followers: Readonly<Record<string, readonly string[]>> = {
  system: ['user', 'assistant', 'system'],
  user: ['assistant', 'system', 'user'],
  assistant: ['assistant', 'user', 'tool'],
  tool: ['assistant', 'tool'],
};

function sentRoles(): readonly string[] {
  const messages = objectsIn(fieldsOf(upstream.requests.at(-1)?.json).messages);
  for (const { role, content, tool_calls: calls } of messages) {
    if (role === 'assistant') expect(Boolean(content) || Array.isArray(calls)).toBe(true);
  }
  return messages.map(({ role }) => String(role));
}

function expectOrder(roles: readonly string[]): void {
  for (const [index, role] of roles.entries()) {
    const before = roles[index - 1];
    if (before !== undefined) expect(followers[before], roles.join(' ')).toContain(role);
  }
}

test('Mistral receives a valid order for text after tool results', async () => {
  const { status } = await gateway.post(
    {
      model: 'acme/large',
      max_tokens: 100,
      messages: [
        { role: 'user', content: 'Weather?' },
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 'toolu_1', name: 'weather', input: {} }],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'toolu_1', content: 'Rain.' },
            { type: 'text', text: 'Answer in one word.' },
          ],
        },
      ],
    },
    { path: '/v1/messages' },
  );
  expect(status).toBe(200);
  const roles = sentRoles();
  expectOrder(roles);
  expect(roles.filter((role) => role === 'user')).toHaveLength(2);
});

test('Mistral receives a valid order for instructions and text in the middle of a chat', async () => {
  const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{}' } };
  const { status } = await gateway.post({
    model: 'acme/large',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello.' },
      { role: 'assistant', content: 'Hello.' },
      { role: 'developer', content: 'Be briefer.' },
      { role: 'user', content: 'Weather?' },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: 'Rain.' },
      { role: 'user', content: 'In one word.' },
    ],
  });
  expect(status).toBe(200);
  expectOrder(sentRoles());
});
