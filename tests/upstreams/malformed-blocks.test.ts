/**
 * Anthropic-style upstreams with malformed blocks: text inside a call, missing start or stop
 * events, or repeated or skipped indexes. Every client receives all content once, in valid blocks,
 * and a truncated answer never looks complete.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  readAnthropicAnswer,
  readOpenAiAnswer,
  readResponsesAnswer,
} from '../support/client-answers.ts';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
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
const thinking = { type: 'thinking', thinking: '', signature: '' };
const call = (id: string, input: unknown = {}) => ({ type: 'tool_use', id, name: 'look', input });
const textDelta = (index: unknown, text: string) => delta(index, { type: 'text_delta', text });
const thinkingDelta = (index: unknown, thinking: string) =>
  delta(index, { type: 'thinking_delta', thinking });
const inputDelta = (index: unknown, json: string) =>
  delta(index, { type: 'input_json_delta', partial_json: json });

interface Case {
  readonly events: readonly Event[];
  readonly text?: string;
  readonly reasoning?: string;
  readonly calls?: readonly object[];
}

const cases: Readonly<Record<string, Case>> = {
  'a line break between two calls, inside the first (SGLang)': {
    events: [
      ...[start(0, call('toolu_a')), inputDelta(0, '{"a":1}'), textDelta(0, '\n'), stop(0)],
      ...[start(1, call('toolu_b')), inputDelta(1, '{"b":2}'), stop(1)],
    ],
    calls: [{ a: 1 }, { b: 2 }],
  },
  'text and thinking between the input deltas of a call': {
    events: [
      ...[
        start(0, call('toolu_a')),
        inputDelta(0, '{"a"'),
        textDelta(0, 'One'),
        inputDelta(0, ':1}'),
      ],
      ...[
        textDelta(0, ' two'),
        thinkingDelta(0, 'Hm.'),
        stop(0),
        start(1, text),
        textDelta(1, ' three'),
        stop(1),
      ],
    ],
    text: 'One two three',
    reasoning: 'Hm.',
    calls: [{ a: 1 }],
  },
  'a text block inside a call': {
    events: [
      ...[
        start(0, call('toolu_a')),
        inputDelta(0, '{"a"'),
        start(1, text),
        textDelta(1, 'Hi'),
        stop(1),
      ],
      ...[inputDelta(0, ':1}'), stop(0)],
    ],
    text: 'Hi',
    calls: [{ a: 1 }],
  },
  'the index 0 in every block': {
    events: [
      ...[
        start(0, thinking),
        thinkingDelta(0, 'Hm.'),
        stop(0),
        start(0, text),
        textDelta(0, 'Hi'),
        stop(0),
      ],
      ...[start(0, call('toolu_a')), inputDelta(0, '{"a":1}'), stop(0)],
      ...[start(0, call('toolu_b')), inputDelta(0, '{"b":2}'), stop(0)],
    ],
    text: 'Hi',
    reasoning: 'Hm.',
    calls: [{ a: 1 }, { b: 2 }],
  },
  'indexes that start at 1 and skip some': {
    events: [
      ...[start(1, text), textDelta(1, 'Hi'), textDelta(1, ' you'), stop(1)],
      ...[start(4, call('toolu_a')), inputDelta(4, '{"a"'), inputDelta(4, ':1}'), stop(4)],
    ],
    text: 'Hi you',
    calls: [{ a: 1 }],
  },
  'no indexes': {
    events: [start(undefined, text), textDelta(undefined, 'Hi'), stop(undefined)],
    text: 'Hi',
  },
  'no start events': {
    events: [
      thinkingDelta(0, 'Hm.'),
      textDelta(0, 'Hi'),
      stop(0),
      textDelta(1, ' you'),
      stop(1),
      stop(7),
    ],
    text: 'Hi you',
    reasoning: 'Hm.',
  },
  'text deltas with another index than their start event (Anthropic, after code execution)': {
    events: [
      ...[start(0, text), textDelta(1, 'Now'), textDelta(1, ' then'), stop(0)],
      ...[start(1, call('toolu_a')), inputDelta(1, '{"a":1}'), stop(1)],
    ],
    text: 'Now then',
    calls: [{ a: 1 }],
  },
  'text in a thinking block and after its end': {
    events: [
      start(0, thinking),
      thinkingDelta(0, 'Hm.'),
      textDelta(0, 'Hi'),
      stop(0),
      textDelta(0, ' you'),
    ],
    text: 'Hi you',
    reasoning: 'Hm.',
  },
  'thinking in a text block': {
    events: [start(0, text), thinkingDelta(0, 'Hm.'), textDelta(0, 'Hi'), stop(0)],
    text: 'Hi',
    reasoning: 'Hm.',
  },
  'another block with the same index, without a stop event before it': {
    events: [
      ...[start(0, thinking), thinkingDelta(0, 'Hm.'), start(0, text), textDelta(0, 'Hi')],
      ...[start(0, call('toolu_a')), inputDelta(0, '{"a":1}')],
      ...[start(0, call('toolu_b')), inputDelta(0, '{"b":2}')],
    ],
    text: 'Hi',
    reasoning: 'Hm.',
    calls: [{ a: 1 }, { b: 2 }],
  },
  'empty text blocks': {
    events: [
      ...[start(0, text), stop(0), start(1, text), textDelta(1, ''), stop(1)],
      ...[start(2, text), textDelta(2, 'Hi'), stop(2)],
    ],
    text: 'Hi',
  },
  'call input in start events, as an object or a string, and repeated in deltas': {
    events: [
      ...[start(0, call('toolu_a', { a: 1 })), stop(0)],
      ...[
        start(1, call('toolu_b', '{"b":2}')),
        inputDelta(1, '{"b"'),
        inputDelta(1, ':2}'),
        stop(1),
      ],
      ...[start(2, call('toolu_c', null)), stop(2), start(3, call('toolu_d', undefined)), stop(3)],
    ],
    calls: [{ a: 1 }, { b: 2 }, {}, {}],
  },
  'input deltas in a text block': {
    events: [start(0, text), textDelta(0, 'Hi'), inputDelta(0, '{"a":1}'), stop(0)],
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
type ClientName = keyof typeof clients;

function eventTexts({ events, calls = [] }: Case): readonly string[] {
  const usage = { input_tokens: 3, output_tokens: 9 };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'up', content: [] };
  const stop_reason = calls.length > 0 ? 'tool_use' : 'end_turn';
  const allEvents = [
    { type: 'message_start', message: { ...message, stop_reason: null, usage } },
    ...events,
    { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ];
  return allEvents.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}

async function send(client: ClientName, sent: string, piece: 'whole' | 'byte by byte' = 'whole') {
  upstream.script('up', replay(sent, { contentType: 'text/event-stream', piece }));
  const { path, body } = clients[client];
  return gateway.post({ model: 'acme/claude', stream: true, ...body }, { path });
}

describe.each(Object.entries(cases))('an Anthropic-style stream with %s', (_, expected) => {
  test.each(['chat', 'messages', 'responses'] as const)('reaches a %s client', async (client) => {
    const sent = eventTexts(expected);
    for (const piece of ['whole', 'byte by byte'] as const) {
      const reply = await send(client, sent.join(''), piece);
      const seen = clients[client].see(reply.text, true);
      const calls = seen.calls.map(({ arguments: json }) => JSON.parse(json) as object);
      expect({ text: seen.text, reasoning: seen.reasoning, calls }).toEqual({
        text: expected.text ?? '',
        reasoning: expected.reasoning ?? '',
        calls: [...(expected.calls ?? [])],
      });
      // 1 credit per input token, 2 per output token.
      expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(3 + 2 * 9);
    }
    for (let length = 0; length < sent.length; length += 1) {
      const reply = await send(client, sent.slice(0, length).join(''));
      const ended = reply.status === 200 ? clients[client].check(reply.text).ended : 'error';
      expect({ length, ended }).toEqual({ length, ended: 'error' });
    }
  });
});
