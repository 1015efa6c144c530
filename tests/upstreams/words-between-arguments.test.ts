/**
 * An upstream of OpenAI's kind that says words between the pieces of a call. Whatever the client
 * speaks, the call arrives whole, and so do the words.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { checkAnthropicStream, checkResponsesStream } from '../support/stream-checks.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  gateway = await InProcessGateway.start({
    providers: { other: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'key' } },
    models: [chatModel('acme/other', [{ provider: 'other', model: 'up' }])],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const begin = (index: number, name: string) => ({
  tool_calls: [{ index, id: `call_${name}`, type: 'function', function: { name, arguments: '' } }],
});
const go = (index: number, json: string) => ({
  tool_calls: [{ index, function: { arguments: json } }],
});
const say = (content: string) => ({ content });
const think = (reasoning: string) => ({ reasoning });

/** Of the words between them nothing may end the calls, and the words stay in their order. */
const deltas = [
  ...[say('One'), begin(0, 'look'), say(' two'), go(0, '{"x":'), say(' three'), go(0, '1}')],
  ...[say(' four'), begin(1, 'find'), think('Hm'), begin(2, 'see'), go(1, '{"y":'), think('m.')],
  ...[go(2, '{"z"'), say(' five'), go(1, '2}'), go(2, ':3}'), say(' six')],
];
const arguments_ = ['{"x":1}', '{"y":2}', '{"z":3}'];
const said = 'One two three four five six';

function script(pieces: readonly object[], piece: 'whole' | 'byte by byte', end = true): void {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    ...{ id: 'x', object: 'chat.completion.chunk' },
    choices: [{ index: 0, delta, finish_reason }],
  });
  const usage = { prompt_tokens: 3, completion_tokens: 9, total_tokens: 12 };
  const last = end ? [chunk({}, 'tool_calls'), { choices: [], usage }] : [];
  const events = [...pieces.map((delta) => chunk(delta)), ...last];
  const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
  const contentType = 'text/event-stream';
  upstream.script('up', replay(end ? `${text}data: [DONE]\n\n` : text, { contentType, piece }));
}

const parameters = { type: 'object' };
const names = ['look', 'find', 'see'];

async function askMessages() {
  const tools = names.map((name) => ({ name, input_schema: parameters }));
  const messages = [{ role: 'user', content: 'Hello' }];
  const body = { model: 'acme/other', messages, tools, max_tokens: 50, stream: true };
  return (await gateway.post(body, { path: '/v1/messages' })).text;
}

async function askResponses() {
  const tools = names.map((name) => ({ type: 'function', name, parameters }));
  const body = { model: 'acme/other', input: 'Hello', tools, stream: true };
  return (await gateway.post(body, { path: '/v1/responses' })).text;
}

const eventsOf = (text: string) =>
  [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data));

describe.each(['whole', 'byte by byte'] as const)('%s', (piece) => {
  beforeEach(() => script(deltas, piece));

  test('in messages', async () => {
    const text = await askMessages();
    checkAnthropicStream(text);
    const told = eventsOf(text).map(({ delta }) => delta ?? {});
    const all = (name: string) => told.map((delta) => delta[name] ?? '').join('');
    expect([all('text'), all('thinking')]).toEqual([said, 'Hmm.']);
    expect(all('partial_json')).toBe(arguments_.join(''));
  });

  test('in responses', async () => {
    const text = await askResponses();
    checkResponsesStream(text);
    const { output } = eventsOf(text).at(-1).response;
    const of = (type: string) => output.filter((item: { type: string }) => item.type === type);
    const calls = of('function_call').map((item: { arguments: string }) => item.arguments);
    expect(calls).toEqual(arguments_);
    const texts = of('message').flatMap((item: { content: object[] }) => item.content);
    expect(texts.map((part: { text: string }) => part.text).join('')).toBe(said);
  });
});

test('a call that never gets arguments keeps no words from their client', async () => {
  script([begin(0, 'look'), say('One'), say(' two')], 'whole');
  const told = eventsOf(await askMessages()).map(({ delta }) => delta?.text ?? '');
  expect(told.join('')).toBe('One two');
});

test('a cut between the words and the rest of a call is no end of it', async () => {
  script(deltas.slice(0, 5), 'whole', false);
  const text = await askMessages();
  expect(text).toContain('event: error');
  expect(text).not.toContain('message_stop');
});
