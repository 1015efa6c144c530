/** Citations by a model that reasons between its searches. */
import { afterAll, beforeEach, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { callTools, chatAnswer } from '../support/fake-upstream.ts';
import { startSearchGateway, tokens, weather } from '../support/search-gateway.ts';

const rig = await startSearchGateway();
afterAll(() => rig.stop());

const search = { name: 'web_search', arguments: { query: 'q' } };

beforeEach(() => {
  rig.reset();
  rig.upstream.script('chat', [
    callTools([search], { reasoning: 'Hm.', text: 'Let me look 😀.', ...tokens(100, 10) }),
    callTools([search], { reasoning: 'More.', text: 'It rained [1]. And', ...tokens(100, 10) }),
    chatAnswer('it snows 😀 [2].', { reasoning: 'So.', ...tokens(100, 10) }),
  ]);
});

const models = ['test/chat', 'test/claude'];
const objects = (list: unknown) => (Array.isArray(list) ? list.filter(isObject) : []);

/** Returns the full response, which is in the last event of a stream. */
const outputIn = (stream: string) => {
  const [last = ''] = stream.match(/^data: .*"type":"response.completed".*$/m) ?? [];
  return JSON.parse(last.slice('data: '.length)).response.output;
};

test.each(models.flatMap((model) => [false, true].map((stream) => [model, stream] as const)))(
  'a Responses answer has each citation on the text that cites it: %s, streamed: %p',
  async (model, stream) => {
    const body = { model, input: 'Weather?', tools: [{ type: 'web_search' }], stream };
    const { text, json } = await rig.gateway.post(body, { path: '/v1/responses' });
    const parts = objects(stream ? outputIn(text) : json.output).flatMap(({ content }) =>
      objects(content),
    );
    const cited = parts.map((part) =>
      objects(part.annotations).map(({ start_index: start, end_index: end }) =>
        Array.from(String(part.text)).slice(Number(start), Number(end)).join(''),
      ),
    );
    expect(cited).toEqual([[], ['[1]'], ['[2]']]);
  },
);

test.each(models)(
  'a Messages answer has each citation on the text that cites it: %s',
  async (model) => {
    const tools = [{ type: 'web_search' }];
    const body = { model, max_tokens: 200, messages: weather, tools };
    const { json } = await rig.gateway.post(body, { path: '/v1/messages' });
    const texts = objects(json.content).filter(({ type }) => type === 'text');
    expect(texts.map(({ citations }) => objects(citations).length)).toEqual([0, 1, 1]);
  },
);

test.each(models)('a chat answer has all citations on its only text: %s', async (model) => {
  const { json } = await rig.gateway.post({
    ...{ model, messages: weather },
    tools: [{ type: 'web_search' }],
  });
  const [choice] = objects(json.choices);
  const { content, annotations } = isObject(choice?.message) ? choice.message : {};
  expect(content).toBe('Let me look 😀.\n\nIt rained [1]. And\n\nit snows 😀 [2].');
  expect(
    objects(annotations).map(({ url_citation: cited }) =>
      isObject(cited) ? [cited.start_index, cited.end_index] : [],
    ),
  ).toEqual([
    [26, 29],
    [47, 50],
  ]);
});
