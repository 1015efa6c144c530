/**
 * Python's `splitlines`, which many clients use to read streams, splits lines at characters that
 * JSON allows in a string. These characters must leave as escapes.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { json, replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const base = { base_url: `${upstream.url}/v1`, api_key: 'k-op' };
  gateway = await InProcessGateway.start({
    providers: {
      openai: { dialect: 'openai', ...base },
      anthropic: { dialect: 'anthropic', ...base },
      responses: { dialect: 'openai-responses', ...base },
    },
    models: ['openai', 'anthropic', 'responses'].map((provider) =>
      chatModel(`acme/${provider}`, [{ provider, model: `${provider}-up` }]),
    ),
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const separators = /[\u0085\u2028\u2029]/;
const content = 'a\u2028b\u2029c\u0085d 日本 \\u2028';

const event = (data: object, type?: string) =>
  `${type ? `event: ${type}\n` : ''}data: ${JSON.stringify(data)}\n\n`;
const typed = ({ type, ...fields }: { type: string } & object) => event({ type, ...fields }, type);

const chunk = (delta: object, reason: string | null = null) =>
  event({
    ...{ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'openai-up' },
    choices: [{ index: 0, delta, finish_reason: reason }],
  });
const message = { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed' };
const part = { type: 'output_text', annotations: [], logprobs: [] };
const response = { id: 'resp_1', object: 'response', model: 'responses-up' };
const at = { output_index: 0, item_id: 'msg_1', content_index: 0 };
const streams: Readonly<Record<string, string>> = {
  // The text is sent twice, because the second chunk takes the path for repeated chunks.
  openai:
    chunk({ role: 'assistant', content: '' }) +
    chunk({ content }) +
    chunk({ content }) +
    `${chunk({}, 'stop')}data: [DONE]\n\n`,
  anthropic: [
    {
      type: 'message_start',
      message: {
        ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'anthropic-up' },
        ...{ content: [], stop_reason: null, usage: { input_tokens: 1, output_tokens: 1 } },
      },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: content } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: content } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
    { type: 'message_stop' },
  ]
    .map(typed)
    .join(''),
  responses: [
    { type: 'response.created', sequence_number: 0, response: { ...response, output: [] } },
    {
      ...{ type: 'response.output_item.added', sequence_number: 1, output_index: 0 },
      item: { ...message, status: 'in_progress', content: [] },
    },
    {
      ...{ type: 'response.content_part.added', sequence_number: 2, ...at },
      part: { ...part, text: '' },
    },
    { type: 'response.output_text.delta', sequence_number: 3, ...at, delta: content },
    { type: 'response.output_text.delta', sequence_number: 4, ...at, delta: content },
    {
      ...{ type: 'response.output_item.done', sequence_number: 5, output_index: 0 },
      item: { ...message, content: [{ ...part, text: content + content }] },
    },
    {
      ...{ type: 'response.completed', sequence_number: 6 },
      response: {
        ...response,
        ...{ status: 'completed', usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 } },
        output: [{ ...message, content: [{ ...part, text: content + content }] }],
      },
    },
  ]
    .map(typed)
    .join(''),
};

const prompt = [{ role: 'user', content: 'Hi' }];
const routes = [
  ['/v1/chat/completions', { messages: prompt }],
  ['/v1/messages', { messages: prompt, max_tokens: 64 }],
  ['/v1/responses', { input: 'Hi' }],
] as const;

/** Joins the text of the deltas, in any of the three formats. */
function textOf(stream: string): string {
  return stream
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice('data: '.length)))
    .map(({ choices, delta }) => choices?.[0]?.delta?.content ?? delta?.text ?? delta ?? '')
    .filter((text) => typeof text === 'string')
    .join('');
}

describe.each(routes)('a stream of %s contains no line separators', (path, fields) => {
  test.each(Object.keys(streams))('from an upstream of the dialect %s', async (dialect) => {
    const behavior = replay(streams[dialect] ?? '', { contentType: 'text/event-stream' });
    upstream.script(`${dialect}-up`, behavior);
    const body = { model: `acme/${dialect}`, stream: true, ...fields };
    const answer = await (await gateway.fetch(body, { path })).text();
    expect(answer).not.toMatch(separators);
    expect(textOf(answer)).toBe(content + content);
  });

  test('if it replays a recording', async () => {
    const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }];
    upstream.script(
      'openai-up',
      json(200, { id: 'c', object: 'chat.completion', created: 1, model: 'openai-up', choices }),
    );
    const body = { model: 'acme/openai', temperature: 0, ...fields };
    await gateway.post(body, { path });
    const replayed = await gateway.fetch({ ...body, stream: true }, { path });
    expect(replayed.headers.get('x-cache')).toBe('HIT');
    const answer = await replayed.text();
    expect(answer).not.toMatch(separators);
    expect(textOf(answer)).toBe(content);
  });
});

test('an error in a stream contains no line separators', async () => {
  const failure = event({ error: { message: 'It\u2028broke\u2029here\u0085.', code: 500 } });
  const stream = chunk({ role: 'assistant', content: 'a' }) + failure;
  upstream.script('openai-up', replay(stream, { contentType: 'text/event-stream' }));
  const { text, error } = await gateway.stream({ model: 'acme/openai', messages: prompt });
  expect(text).not.toMatch(separators);
  expect(String(error?.message)).toContain('It\u2028broke\u2029here\u0085.');
});
