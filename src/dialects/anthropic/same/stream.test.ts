import { describe, expect, test } from 'bun:test';
import { valueIn } from '../../../../tests/support/read-result.ts';
import { identity } from '../../../../tests/support/reply-identity.ts';
import { checkAnthropicStream } from '../../../../tests/support/stream-checks.ts';
import { noUsage } from '../../../core/usage.ts';
import { readReply } from './reply.ts';
import { AnthropicPassThrough } from './stream.ts';

const message = {
  id: 'msg_upstream',
  type: 'message',
  role: 'assistant',
  model: 'claude-x',
  content: [],
  stop_reason: null,
  usage: { input_tokens: 3, output_tokens: 1 },
};
const begin = { type: 'message_start', message };
const hello = [
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
  { type: 'content_block_stop', index: 0 },
];
const stop = (index: number) => ({ type: 'content_block_stop', index });
const usage = { input_tokens: 3, output_tokens: 2 };
const end = (more: object = {}) => ({
  type: 'message_delta',
  delta: { stop_reason: 'end_turn', stop_sequence: null },
  usage,
  ...more,
});
const over = { type: 'message_stop' };

function push(events: readonly (object | string)[], relay = new AnthropicPassThrough(identity, 9)) {
  const parts = events.map((event) =>
    relay.push({ event: null, data: typeof event === 'string' ? event : JSON.stringify(event) }),
  );
  return { relay, parts, said: parts.join('') };
}

const settled = { usage: { ...noUsage, inputTokens: 70, outputTokens: 8 }, costCredits: 1 };

describe('an Anthropic stream that passes through', () => {
  test('says its last words only when they are settled', () => {
    const { relay, parts } = push([begin, ...hello, end(), over]);
    expect(parts.slice(-2)).toEqual(['', '']);
    expect(relay.metrics).toMatchObject({ finishReason: 'stop', usage: { outputTokens: 2 } });
    const last = relay.close(settled);
    expect(last).toStartWith('event: message_delta\n');
    expect(last).toContain('"usage":{"input_tokens":3,"output_tokens":2}');
    expect(last).toEndWith('event: message_stop\ndata: {"type":"message_stop"}\n\n');
  });

  test('gets the settled numbers where it had none', () => {
    const bare = { type: 'message_start', message: { ...message, usage: undefined } };
    const { relay, said } = push([bare, ...hello, end({ usage: undefined }), over]);
    expect(relay.metrics.usage).toBeUndefined();
    expect(relay.close(settled)).toContain('"input_tokens":70');
    expect(said).toContain('Hi');
  });

  test('gets them where its end forgets the prompt that its beginning counted', () => {
    const last = { ...usage, input_tokens: 0, server_tool_use: { web_search_requests: 1 } };
    const { relay } = push([begin, ...hello, end({ usage: last }), over]);
    expect(relay.metrics.usage).toMatchObject({ inputTokens: 3, outputTokens: 2 });
    const settled = { usage: { ...noUsage, inputTokens: 3, outputTokens: 2 }, costCredits: 1 };
    const told = relay.close(settled);
    expect(told).toContain('"usage":{"input_tokens":3,');
    expect(told).toContain('"server_tool_use":{"web_search_requests":1}');
  });

  test('keeps events, blocks and fields that nobody knows, and long numbers', () => {
    const block = '{"type":"new","n":12345678901234567890}';
    const odd = `{"type":"content_block_start","index":1,"content_block":${block}}`;
    const { said } = push([begin, ...hello, odd, { type: 'novelty', a: 1 }]);
    expect(said).toContain(`event: content_block_start\ndata: ${odd}\n\n`);
    expect(said).toContain('event: novelty\ndata: {"type":"novelty","a":1}\n\n');
  });

  test('says the words that a block begins with in deltas', () => {
    const start = (index: number, content_block: object) => ({
      ...{ type: 'content_block_start', index },
      content_block,
    });
    const stop = (index: number) => ({ type: 'content_block_stop', index });
    const { relay, said } = push([
      begin,
      start(0, { type: 'thinking', thinking: 'Hm.', signature: 'sig' }),
      stop(0),
      start(1, { type: 'text', text: 'Hi', more: 1 }),
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: ' there' } },
      stop(1),
      end(),
      over,
    ]);
    const text = said + relay.close(settled);
    const seen = { thinking: 'Hm.', signatures: ['sig'], text: 'Hi there' };
    expect(checkAnthropicStream(text)).toMatchObject(seen);
    const told = text.split('\n').filter((line) => line.startsWith('data: '));
    expect(told.slice(1, 8).map((line): unknown => JSON.parse(line.slice(6)))).toEqual([
      start(0, { type: 'thinking', thinking: '', signature: '' }),
      {
        ...{ type: 'content_block_delta', index: 0 },
        delta: { type: 'thinking_delta', thinking: 'Hm.' },
      },
      {
        ...{ type: 'content_block_delta', index: 0 },
        delta: { type: 'signature_delta', signature: 'sig' },
      },
      stop(0),
      start(1, { type: 'text', text: '', more: 1 }),
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Hi' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: ' there' } },
    ]);
    expect(relay.metrics.outputCharacters).toBe(11);
  });

  test('stops each block once, also where its upstream does not, or twice', () => {
    const [open, content, stop] = hello;
    const at = (event: object | undefined, index: number) => ({ ...event, index });
    const { relay, said } = push([
      ...[begin, at(open, 0), at(content, 0)],
      ...[at(open, 1), at(stop, 0), at(content, 1), at(stop, 1), at(stop, 1)],
      // A report in the middle ends nothing.
      ...[at(open, 2), end({ delta: {} }), at(content, 2)],
      ...[end(), over],
    ]);
    const text = said + relay.close(settled);
    const told = [...text.matchAll(/"type":"content_block_(\w+)","index":(\d)/g)];
    expect(told.map(([, what, index]) => `${what}${index}`)).toEqual([
      ...['start0', 'delta0', 'stop0', 'start1', 'delta1', 'stop1', 'start2', 'delta2', 'stop2'],
    ]);
    expect(text).toMatch(/event: content_block_stop\n.*\n\nevent: message_delta\n.*end_turn/);
  });

  const uncounted = { input_tokens: 0, iterations: [{ type: 'message', model: 'claude-x' }] };
  test.each([usage, undefined, uncounted])('shows no name of its upstream, used: %j', (used) => {
    const tail = end({
      delta: { stop_reason: 'refusal', stop_details: { recommended: 'claude-x' } },
      usage: used,
    });
    const { relay, said } = push([begin, tail, over]);
    const text = said + relay.close(settled);
    expect(text).not.toContain('claude-x');
    expect(text).not.toContain('msg_upstream');
    expect(text).toContain('"recommended":"acme/large"');
  });

  test('is written anew where its data came in several lines', () => {
    const { relay, said } = push([begin, ...hello, JSON.stringify(end(), null, 1), over]);
    const seen = checkAnthropicStream(said + relay.close(settled));
    expect(seen).toMatchObject({ ended: 'complete', text: 'Hi' });
  });

  test('lets nothing pass before its beginning, twice, or after its end', () => {
    const { relay, said } = push([{ type: 'ping' }, ...hello, begin, begin, end(), over, ...hello]);
    const seen = checkAnthropicStream(said + relay.close(settled));
    expect(seen).toMatchObject({ ended: 'complete', text: '' });
  });

  test('does not name an event by what an upstream likes', () => {
    const { said } = push([begin, { type: 'a\nevent: message_stop' }, { type: 5 }]);
    expect(checkAnthropicStream(said).ended).toBe('cut');
  });

  test.each([
    ['no JSON', ['{'], 'malformed', "isn't a valid JSON object"],
    ['an error without a name', [{ error: { message: 'x' } }], 'server', 'x'],
    ['a second beginning', [...hello, begin], 'malformed', 'a second time'],
    ['no stop reason', [end({ delta: {} }), over], 'malformed', 'without a stop reason'],
  ] as const)('fails by %s', (_, events, kind, content) => {
    const { relay } = push([begin, ...events]);
    const message = expect.stringContaining(content);
    expect(relay.metrics.failure).toMatchObject({ kind, message });
    expect(relay.finished).toBe(false);
    expect(push([...hello], relay).said).toBe('');
  });

  test('pings only after its beginning', () => {
    const relay = new AnthropicPassThrough(identity, 9);
    expect(relay.keepAlive()).toBe(': keep-alive\n\n');
    push([begin], relay);
    expect(relay.keepAlive()).toBe('event: ping\ndata: {"type":"ping"}\n\n');
  });
});

test('a streamed call that has no id gets one that its client can answer', () => {
  const call = (id: string) => ({ type: 'tool_use', id, name: 'look', input: {} });
  const start = (index: number, id: string) => ({
    type: 'content_block_start',
    index,
    content_block: call(id),
  });
  const { parts } = push([begin, start(0, ''), stop(0), start(1, 'toolu_1')]);
  expect(parts[1]).toMatch(/"content_block":{"type":"tool_use","id":"toolu_\w{24}","name":"look"/);
  expect(parts[3]).toContain('"id":"toolu_1"');
});

test('a call of a whole reply that has no id gets one that its client can answer', () => {
  const call = { type: 'tool_use', id: '', name: 'look', input: {} };
  const content = [call, { ...call, id: 'toolu_1' }];
  const whole = { ...message, content, stop_reason: 'tool_use' };
  const reply = valueIn(readReply(JSON.stringify(whole), identity));
  expect(JSON.parse(reply.write(settled))).toMatchObject({
    content: [{ id: expect.stringMatching(/^toolu_\w{24}$/) }, { id: 'toolu_1' }],
  });
});

test('a block that is started with every piece of it is started once', () => {
  const [start, piece, ended] = hello;
  const again = [start, piece, start, piece, ended].map((event) => event ?? {});
  const { relay, said } = push([begin, ...again, end(), over]);
  expect(checkAnthropicStream(said + relay.close(settled))).toMatchObject({ text: 'HiHi' });
});

test('an end without a report gets one: clients read it without looking', () => {
  for (const last of [null, undefined]) {
    const { relay } = push([begin, ...hello, end({ usage: last }), over]);
    expect(relay.close(settled)).toContain('"output_tokens":8}');
  }
});

test('an answer that calls a tool says so at its end, as clients wait for it', () => {
  const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };
  const start = { type: 'content_block_start', index: 0, content_block: call };
  const more = { type: 'message_delta', delta: {}, usage: { output_tokens: 7 } };
  const { relay } = push([begin, start, stop(0), end({ new: 1 }), more, over]);
  expect(relay.close(settled)).toContain('"delta":{"stop_reason":"tool_use","stop_sequence":null}');
  const whole = { ...message, content: [call], stop_reason: 'end_turn' };
  const reply = valueIn(readReply(JSON.stringify(whole), identity));
  expect(JSON.parse(reply.write(settled))).toMatchObject({ stop_reason: 'tool_use' });
});

test.each([
  ['length', 'max_tokens', 'length'],
  ['stop', 'end_turn', 'stop'],
  ['content_filter', 'refusal', 'content_filter'],
  // No call came: a client would wait for ever for one to run.
  ['tool_calls', 'end_turn', 'stop'],
  ['compaction', 'compaction', 'stop'],
])('the stop reason %s is told as %s and kept as %s', (word, told, kept) => {
  const { relay } = push([begin, ...hello, end({ delta: { stop_reason: word } }), over]);
  expect(relay.close(settled)).toContain(`"delta":{"stop_reason":"${told}"}`);
  expect(relay.metrics.finishReason).toBe(kept);
  const reply = valueIn(readReply(JSON.stringify({ ...message, stop_reason: word }), identity));
  expect(JSON.parse(reply.write(settled))).toMatchObject({ stop_reason: told });
  expect(reply.metrics.finishReason).toBe(kept);
});

test('a call that ends with a word of OpenAI’s is run', () => {
  const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };
  for (const word of ['tool_calls', 'stop']) {
    const whole = { ...message, content: [call], stop_reason: word };
    const reply = valueIn(readReply(JSON.stringify(whole), identity));
    expect(JSON.parse(reply.write(settled))).toMatchObject({ stop_reason: 'tool_use' });
  }
});

test('a thought that has no signature gets the empty one, which clients insist on', () => {
  const bare = { type: 'thinking', thinking: '' };
  const signed = { ...bare, signature: 'c2ln' };
  const start = (index: number, content_block: object) => ({
    type: 'content_block_start',
    index,
    content_block,
  });
  const { parts } = push([begin, start(0, bare), stop(0), start(1, signed)]);
  expect(parts[1]).toContain('"content_block":{"type":"thinking","thinking":"","signature":""}');
  expect(parts[3]).toContain('"signature":"c2ln"');
});

test('a second report that has nothing to say about the end does not take it back', () => {
  const first = end({ delta: { stop_reason: 'max_tokens', stop_sequence: null } });
  const second = end({ delta: { stop_reason: null }, usage: { output_tokens: 7 } });
  const { relay } = push([begin, ...hello, first, second, over]);
  const [last = ''] = relay.close(settled).split('\n\n');
  expect(JSON.parse(last.slice(last.indexOf('{')))).toEqual({ ...second, delta: first.delta });
  expect(relay.metrics).toMatchObject({ finishReason: 'length', usage: { outputTokens: 7 } });
});

test('a whole message is one by its names, also where a server leaves them out', () => {
  const content = [null, { type: 'text', text: 'Hi' }, 5];
  const bare = { id: 'theirs', model: 'claude-x', content, stop_reason: 'end_turn', usage };
  const reply = valueIn(readReply(JSON.stringify(bare), identity));
  expect(JSON.parse(reply.write(settled))).toMatchObject({
    type: 'message',
    role: 'assistant',
    content: [{ type: 'text', text: 'Hi' }],
  });
});

test('a whole message that nobody counted keeps what else is told of its use', () => {
  const content = [{ type: 'text', text: 'Hi' }];
  const told = { output_tokens: null, service_tier: 'standard' };
  const uncounted = { ...message, content, stop_reason: 'end_turn', usage: told };
  const reply = valueIn(readReply(JSON.stringify(uncounted), identity));
  const { usage: shown } = JSON.parse(reply.write(settled)) as { usage: unknown };
  expect(shown).toEqual({
    ...{ input_tokens: 70, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
    ...{ output_tokens: 8, service_tier: 'standard' },
  });
});
