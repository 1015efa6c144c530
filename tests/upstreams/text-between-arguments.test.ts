/**
 * An OpenAI-style upstream that sends text between the pieces of a tool call. Every client receives
 * the complete call and the complete text.
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

const startCall = (index: number, name: string) => ({
  tool_calls: [{ index, id: `call_${name}`, type: 'function', function: { name, arguments: '' } }],
});
const argumentsDelta = (index: number, json: string) => ({
  tool_calls: [{ index, function: { arguments: json } }],
});
const textDelta = (content: string) => ({ content });
const reasoningDelta = (reasoning: string) => ({ reasoning });

/** Text, reasoning, and three calls, interleaved. */
const deltas = [
  ...[
    textDelta('One'),
    startCall(0, 'look'),
    textDelta(' two'),
    argumentsDelta(0, '{"x":'),
    textDelta(' three'),
    argumentsDelta(0, '1}'),
  ],
  ...[
    textDelta(' four'),
    startCall(1, 'find'),
    reasoningDelta('Hm'),
    startCall(2, 'see'),
    argumentsDelta(1, '{"y":'),
    reasoningDelta('m.'),
  ],
  ...[
    argumentsDelta(2, '{"z"'),
    textDelta(' five'),
    argumentsDelta(1, '2}'),
    argumentsDelta(2, ':3}'),
    textDelta(' six'),
  ],
];
const callArguments = ['{"x":1}', '{"y":2}', '{"z":3}'];
const fullText = 'One two three four five six';

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

async function postMessages() {
  const tools = names.map((name) => ({ name, input_schema: parameters }));
  const messages = [{ role: 'user', content: 'Hello' }];
  const body = { model: 'acme/other', messages, tools, max_tokens: 50, stream: true };
  return (await gateway.post(body, { path: '/v1/messages' })).text;
}

async function postResponses() {
  const tools = names.map((name) => ({ type: 'function', name, parameters }));
  const body = { model: 'acme/other', input: 'Hello', tools, stream: true };
  return (await gateway.post(body, { path: '/v1/responses' })).text;
}

const eventsOf = (text: string) =>
  [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data));

describe.each(['whole', 'byte by byte'] as const)(
  'text between call arguments, sent %s,',
  (piece) => {
    beforeEach(() => script(deltas, piece));

    test('reaches a Messages client', async () => {
      const text = await postMessages();
      checkAnthropicStream(text);
      const deltas = eventsOf(text).map(({ delta }) => delta ?? {});
      const joined = (name: string) => deltas.map((delta) => delta[name] ?? '').join('');
      expect([joined('text'), joined('thinking')]).toEqual([fullText, 'Hmm.']);
      expect(joined('partial_json')).toBe(callArguments.join(''));
    });

    test('reaches a Responses client', async () => {
      const text = await postResponses();
      checkResponsesStream(text);
      const { output } = eventsOf(text).at(-1).response;
      const of = (type: string) => output.filter((item: { type: string }) => item.type === type);
      const calls = of('function_call').map((item: { arguments: string }) => item.arguments);
      expect(calls).toEqual(callArguments);
      const texts = of('message').flatMap((item: { content: object[] }) => item.content);
      expect(texts.map((part: { text: string }) => part.text).join('')).toBe(fullText);
    });
  },
);

test("a call without arguments doesn't delay the text after it", async () => {
  script([startCall(0, 'look'), textDelta('One'), textDelta(' two')], 'whole');
  const texts = eventsOf(await postMessages()).map(({ delta }) => delta?.text ?? '');
  expect(texts.join('')).toBe('One two');
});

test('a stream that is cut off inside a call ends with an error', async () => {
  script(deltas.slice(0, 5), 'whole', false);
  const text = await postMessages();
  expect(text).toContain('event: error');
  expect(text).not.toContain('message_stop');
});
