/** DeepSeek rejects arrays of text parts: "invalid type: sequence, expected a string". */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { builtinCatalog } from '../../src/config/catalog/index.ts';
import { fieldsOf, objectsIn } from '../../src/core/json.ts';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const shipped = builtinCatalog.providers.find(({ name }) => name === 'deepseek');
  if (!shipped) throw new Error('DeepSeek is no longer in the catalog.');
  const { dialect, quirks = {} } = shipped;
  gateway = await InProcessGateway.start({
    providers: { deepseek: { dialect, quirks, base_url: `${upstream.url}/v1`, api_key: 'key' } },
    models: [chatModel('acme/flash', [{ provider: 'deepseek', model: 'flash-up' }])],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => {
  upstream.reset();
  upstream.script('flash-up', chatAnswer('Rain.'));
});

function sentContents(): readonly unknown[] {
  const messages = objectsIn(fieldsOf(upstream.requests.at(-1)?.json).messages);
  return messages.map(({ content }) => content);
}

const texts = [
  { type: 'text', text: 'Be brief.' },
  { type: 'text', text: 'Weather?' },
];
const joined = 'Be brief.\n\nWeather?';

test('converts arrays of text parts in chat requests, including tool results, to strings for DeepSeek', async () => {
  const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{}' } };
  const { status } = await gateway.post({
    model: 'acme/flash',
    messages: [
      { role: 'system', content: texts },
      { role: 'user', content: texts },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: texts },
    ],
  });
  expect(status).toBe(200);
  expect(sentContents()).toEqual([joined, joined, null, joined]);
});

test('converts arrays of text blocks in Messages API requests to strings for DeepSeek', async () => {
  const body = {
    model: 'acme/flash',
    max_tokens: 100,
    messages: [{ role: 'user', content: texts }],
  };
  expect((await gateway.post(body, { path: '/v1/messages' })).status).toBe(200);
  expect(sentContents()).toEqual([joined]);
});
