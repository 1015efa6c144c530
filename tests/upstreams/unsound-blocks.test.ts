/**
 * Upstreams of Anthropic's kind that get the order of blocks wrong: words inside a call, blocks
 * that nobody began or ended, numbers that repeat or skip. Whatever the client speaks, it hears
 * every word once, in blocks that it can put together, and a cut answer is never whole.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import {
  readAnthropicAnswer,
  readOpenAiAnswer,
  readResponsesAnswer,
} from '../support/client-answers.ts';
import {
  checkAnthropicStream,
  checkOpenAiStream,
  checkResponsesStream,
} from '../support/stream-checks.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 1_000_000 },
    providers: { claude: { dialect: 'anthropic', base_url: upstream.url, api_key: 'key' } },
    models: [chatModel('acme/claude', [{ provider: 'claude', model: 'up' }])],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

type Event = { readonly type: string };

const start = (index: unknown, content_block: object) => ({
  ...{ type: 'content_block_start', index },
  content_block,
});
const delta = (index: unknown, fields: object) => ({
  ...{ type: 'content_block_delta', index },
  delta: fields,
});
const stop = (index: unknown) => ({ type: 'content_block_stop', index });
const text = { type: 'text', text: '' };
const thought = { type: 'thinking', thinking: '', signature: '' };
const call = (id: string, input: unknown = {}) => ({ type: 'tool_use', id, name: 'look', input });
const says = (index: unknown, words: string) => delta(index, { type: 'text_delta', text: words });
const thinks = (index: unknown, thinking: string) =>
  delta(index, { type: 'thinking_delta', thinking });
const asks = (index: unknown, json: string) =>
  delta(index, { type: 'input_json_delta', partial_json: json });

interface Case {
  readonly events: readonly Event[];
  readonly text?: string;
  readonly reasoning?: string;
  readonly calls?: readonly object[];
}

const cases: Readonly<Record<string, Case>> = {
  'a line end between two calls, inside the first (SGLang)': {
    events: [
      ...[start(0, call('toolu_a')), asks(0, '{"a":1}'), says(0, '\n'), stop(0)],
      ...[start(1, call('toolu_b')), asks(1, '{"b":2}'), stop(1)],
    ],
    calls: [{ a: 1 }, { b: 2 }],
  },
  'words and a thought between the pieces of a call': {
    events: [
      ...[start(0, call('toolu_a')), asks(0, '{"a"'), says(0, 'One'), asks(0, ':1}')],
      ...[says(0, ' two'), thinks(0, 'Hm.'), stop(0), start(1, text), says(1, ' three'), stop(1)],
    ],
    text: 'One two three',
    reasoning: 'Hm.',
    calls: [{ a: 1 }],
  },
  'a text block that begins and ends while a call is open': {
    events: [
      ...[start(0, call('toolu_a')), asks(0, '{"a"'), start(1, text), says(1, 'Hi'), stop(1)],
      ...[asks(0, ':1}'), stop(0)],
    ],
    text: 'Hi',
    calls: [{ a: 1 }],
  },
  'every block has the number 0': {
    events: [
      ...[start(0, thought), thinks(0, 'Hm.'), stop(0), start(0, text), says(0, 'Hi'), stop(0)],
      ...[start(0, call('toolu_a')), asks(0, '{"a":1}'), stop(0)],
      ...[start(0, call('toolu_b')), asks(0, '{"b":2}'), stop(0)],
    ],
    text: 'Hi',
    reasoning: 'Hm.',
    calls: [{ a: 1 }, { b: 2 }],
  },
  'numbers that begin with 1 and skip some': {
    events: [
      ...[start(1, text), says(1, 'Hi'), says(1, ' you'), stop(1)],
      ...[start(4, call('toolu_a')), asks(4, '{"a"'), asks(4, ':1}'), stop(4)],
    ],
    text: 'Hi you',
    calls: [{ a: 1 }],
  },
  'no numbers at all': {
    events: [start(undefined, text), says(undefined, 'Hi'), stop(undefined)],
    text: 'Hi',
  },
  'blocks that nobody began': {
    events: [thinks(0, 'Hm.'), says(0, 'Hi'), stop(0), says(1, ' you'), stop(1), stop(7)],
    text: 'Hi you',
    reasoning: 'Hm.',
  },
  'words under another number than their beginning (Anthropic, after code ran)': {
    events: [
      ...[start(0, text), says(1, 'Now'), says(1, ' then'), stop(0)],
      ...[start(1, call('toolu_a')), asks(1, '{"a":1}'), stop(1)],
    ],
    text: 'Now then',
    calls: [{ a: 1 }],
  },
  'words in the block of a thought, and behind its end': {
    events: [start(0, thought), thinks(0, 'Hm.'), says(0, 'Hi'), stop(0), says(0, ' you')],
    text: 'Hi you',
    reasoning: 'Hm.',
  },
  'a thought in the block of a text': {
    events: [start(0, text), thinks(0, 'Hm.'), says(0, 'Hi'), stop(0)],
    text: 'Hi',
    reasoning: 'Hm.',
  },
  'another block under the same number, without an end before it': {
    events: [
      ...[start(0, thought), thinks(0, 'Hm.'), start(0, text), says(0, 'Hi')],
      ...[start(0, call('toolu_a')), asks(0, '{"a":1}')],
      ...[start(0, call('toolu_b')), asks(0, '{"b":2}')],
    ],
    text: 'Hi',
    reasoning: 'Hm.',
    calls: [{ a: 1 }, { b: 2 }],
  },
  'texts without a word': {
    events: [
      ...[start(0, text), stop(0), start(1, text), says(1, ''), stop(1)],
      ...[start(2, text), says(2, 'Hi'), stop(2)],
    ],
    text: 'Hi',
  },
  'arguments in the beginning of a call, as an object or a text, and once more in pieces': {
    events: [
      ...[start(0, call('toolu_a', { a: 1 })), stop(0)],
      ...[start(1, call('toolu_b', '{"b":2}')), asks(1, '{"b"'), asks(1, ':2}'), stop(1)],
      ...[start(2, call('toolu_c', null)), stop(2), start(3, call('toolu_d', undefined)), stop(3)],
    ],
    calls: [{ a: 1 }, { b: 2 }, {}, {}],
  },
  'arguments in the block of a text': {
    events: [start(0, text), says(0, 'Hi'), asks(0, '{"a":1}'), stop(0)],
    text: 'Hi',
  },
};

const question = [{ role: 'user', content: 'Hello!' }];
const clients = {
  chat: {
    path: '/v1/chat/completions',
    body: { messages: question },
    check: checkOpenAiStream,
    see: readOpenAiAnswer,
  },
  messages: {
    path: '/v1/messages',
    body: { messages: question, max_tokens: 50 },
    check: checkAnthropicStream,
    see: readAnthropicAnswer,
  },
  responses: {
    path: '/v1/responses',
    body: { input: 'Hello!' },
    check: checkResponsesStream,
    see: readResponsesAnswer,
  },
} as const;
type Name = keyof typeof clients;

function wire({ events, calls = [] }: Case): readonly string[] {
  const usage = { input_tokens: 3, output_tokens: 9 };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'up', content: [] };
  const stop_reason = calls.length > 0 ? 'tool_use' : 'end_turn';
  const all = [
    { type: 'message_start', message: { ...message, stop_reason: null, usage } },
    ...events,
    { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ];
  return all.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}

async function ask(name: Name, sent: string, piece: 'whole' | 'byte by byte' = 'whole') {
  upstream.script('up', replay(sent, { contentType: 'text/event-stream', piece }));
  const { path, body } = clients[name];
  return gateway.post({ model: 'acme/claude', stream: true, ...body }, { path });
}

describe.each(Object.entries(cases))('%s', (_, one) => {
  test.each(['chat', 'messages', 'responses'] as const)('in %s', async (name) => {
    const sent = wire(one);
    for (const piece of ['whole', 'byte by byte'] as const) {
      const reply = await ask(name, sent.join(''), piece);
      const seen = clients[name].see(reply.text, true);
      const calls = seen.calls.map((made) => JSON.parse(made.arguments) as object);
      expect({ text: seen.text, reasoning: seen.reasoning, calls }).toEqual({
        text: one.text ?? '',
        reasoning: one.reasoning ?? '',
        calls: [...(one.calls ?? [])],
      });
      // One credit a token in, two a token out.
      expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(3 + 2 * 9);
    }
    for (let length = 0; length < sent.length; length += 1) {
      const reply = await ask(name, sent.slice(0, length).join(''));
      const ended = reply.status === 200 ? clients[name].check(reply.text).ended : 'error';
      expect({ length, ended }).toEqual({ length, ended: 'error' });
    }
  });
});
