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
const end = (extraFields: object = {}) => ({
  type: 'message_delta',
  delta: { stop_reason: 'end_turn', stop_sequence: null },
  usage,
  ...extraFields,
});
const over = { type: 'message_stop' };

function push(events: readonly (object | string)[], relay = new AnthropicPassThrough(identity, 9)) {
  const parts = events.map((event) =>
    relay.push({ event: null, data: typeof event === 'string' ? event : JSON.stringify(event) }),
  );
  return { relay, parts, output: parts.join('') };
}

const settled = { usage: { ...noUsage, inputTokens: 70, outputTokens: 8 }, costCredits: 1 };
const asReported = ({ metrics }: AnthropicPassThrough) => ({
  ...settled,
  usage: metrics.usage ?? noUsage,
});

describe('AnthropicPassThrough', () => {
  test('sends the last events only once usage is settled', () => {
    const { relay, parts } = push([begin, ...hello, end(), over]);
    expect(parts.slice(-2)).toEqual(['', '']);
    expect(relay.metrics).toMatchObject({ finishReason: 'stop', usage: { outputTokens: 2 } });
    const last = relay.close(asReported(relay));
    expect(last).toStartWith('event: message_delta\n');
    expect(last).toContain('"usage":{"input_tokens":3,"output_tokens":2}');
    expect(last).toEndWith('event: message_stop\ndata: {"type":"message_stop"}\n\n');
  });

  test('adds the settled usage if the upstream reported none', () => {
    const bare = { type: 'message_start', message: { ...message, usage: undefined } };
    const { relay, output } = push([bare, ...hello, end({ usage: undefined }), over]);
    expect(relay.metrics.usage).toBeUndefined();
    expect(relay.close(settled)).toContain('"input_tokens":70');
    expect(output).toContain('Hi');
  });

  test('adds the settled usage if the last report omits the prompt', () => {
    const last = { ...usage, input_tokens: 0, server_tool_use: { web_search_requests: 1 } };
    const { relay } = push([begin, ...hello, end({ usage: last }), over]);
    expect(relay.metrics.usage).toMatchObject({ inputTokens: 3, outputTokens: 2 });
    const settled = { usage: { ...noUsage, inputTokens: 3, outputTokens: 2 }, costCredits: 1 };
    const closing = relay.close(settled);
    expect(closing).toContain('"usage":{"input_tokens":3,');
    expect(closing).toContain('"server_tool_use":{"web_search_requests":1}');
  });

  test('keeps unknown events, blocks, and fields, and long numbers', () => {
    const block = '{"type":"new","n":12345678901234567890}';
    const start = `{"type":"content_block_start","index":1,"content_block":${block}}`;
    const { output } = push([begin, ...hello, start, { type: 'novelty', a: 1 }]);
    expect(output).toContain(`event: content_block_start\ndata: ${start}\n\n`);
    expect(output).toContain('event: novelty\ndata: {"type":"novelty","a":1}\n\n');
  });

  test('moves the text of start events into deltas', () => {
    const start = (index: number, content_block: object) => ({
      ...{ type: 'content_block_start', index },
      content_block,
    });
    const stop = (index: number) => ({ type: 'content_block_stop', index });
    const { relay, output } = push([
      begin,
      start(0, { type: 'thinking', thinking: 'Hm.', signature: 'sig' }),
      stop(0),
      start(1, { type: 'text', text: 'Hi', extraFields: 1 }),
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: ' there' } },
      stop(1),
      end(),
      over,
    ]);
    const text = output + relay.close(settled);
    const seen = { thinking: 'Hm.', signatures: ['sig'], text: 'Hi there' };
    expect(checkAnthropicStream(text)).toMatchObject(seen);
    const lines = text.split('\n').filter((line) => line.startsWith('data: '));
    expect(lines.slice(1, 8).map((line): unknown => JSON.parse(line.slice(6)))).toEqual([
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
      start(1, { type: 'text', text: '', extraFields: 1 }),
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Hi' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: ' there' } },
    ]);
    expect(relay.metrics.outputCharacters).toBe(11);
  });

  test('stops each block once, even if the upstream omits or repeats stop events', () => {
    const [open, content, stop] = hello;
    const at = (event: object | undefined, index: number) => ({ ...event, index });
    const { relay, output } = push([
      ...[begin, at(open, 0), at(content, 0)],
      ...[at(open, 1), at(stop, 0), at(content, 1), at(stop, 1), at(stop, 1)],
      // A message_delta without a stop reason doesn't end a block.
      ...[at(open, 2), end({ delta: {} }), at(content, 2)],
      ...[end(), over],
    ]);
    const text = output + relay.close(settled);
    const blockEvents = [...text.matchAll(/"type":"content_block_(\w+)","index":(\d)/g)];
    expect(blockEvents.map(([, kind, index]) => `${kind}${index}`)).toEqual([
      ...['start0', 'delta0', 'stop0', 'start1', 'delta1', 'stop1', 'start2', 'delta2', 'stop2'],
    ]);
    expect(text).toMatch(/event: content_block_stop\n.*\n\nevent: message_delta\n.*end_turn/);
  });

  const uncounted = { input_tokens: 0, iterations: [{ type: 'message', model: 'claude-x' }] };
  test.each([usage, undefined, uncounted])(
    "replaces the upstream's names if its usage is %j",
    (reportedUsage) => {
      const tail = end({
        delta: { stop_reason: 'refusal', stop_details: { recommended: 'claude-x' } },
        usage: reportedUsage,
      });
      const { relay, output } = push([begin, tail, over]);
      const text = output + relay.close(settled);
      expect(text).not.toContain('claude-x');
      expect(text).not.toContain('msg_upstream');
      expect(text).toContain('"recommended":"acme/large"');
    },
  );

  test('rewrites data that spans several lines', () => {
    const { relay, output } = push([begin, ...hello, JSON.stringify(end(), null, 1), over]);
    const seen = checkAnthropicStream(output + relay.close(settled));
    expect(seen).toMatchObject({ ended: 'complete', text: 'Hi' });
  });

  test('drops events before message_start or after the end, and repeated starts', () => {
    const { relay, output } = push([
      { type: 'ping' },
      ...hello,
      begin,
      begin,
      end(),
      over,
      ...hello,
    ]);
    const seen = checkAnthropicStream(output + relay.close(settled));
    expect(seen).toMatchObject({ ended: 'complete', text: '' });
  });

  test('drops events with invalid types', () => {
    const { output } = push([begin, { type: 'a\nevent: message_stop' }, { type: 5 }]);
    expect(checkAnthropicStream(output).ended).toBe('truncated');
  });

  test.each([
    ['invalid JSON', ['{'], 'malformed', "isn't a valid JSON object"],
    ['an error without an event name', [{ error: { message: 'x' } }], 'server', 'x'],
    ['a second message_start', [...hello, begin], 'malformed', 'a second time'],
    ['a missing stop reason', [end({ delta: {} }), over], 'malformed', 'without a stop reason'],
  ] as const)('fails for %s', (_, events, kind, content) => {
    const { relay } = push([begin, ...events]);
    const message = expect.stringContaining(content);
    expect(relay.metrics.failure).toMatchObject({ kind, message });
    expect(relay.finished).toBe(false);
    expect(push([...hello], relay).output).toBe('');
  });

  test('sends pings only after message_start', () => {
    const relay = new AnthropicPassThrough(identity, 9);
    expect(relay.keepAlive()).toBe(': keep-alive\n\n');
    push([begin], relay);
    expect(relay.keepAlive()).toBe('event: ping\ndata: {"type":"ping"}\n\n');
  });
});

test('AnthropicPassThrough adds an ID to a call without one', () => {
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

test('readReply adds an ID to a call without one', () => {
  const call = { type: 'tool_use', id: '', name: 'look', input: {} };
  const content = [call, { ...call, id: 'toolu_1' }];
  const body = { ...message, content, stop_reason: 'tool_use' };
  const reply = valueIn(readReply(JSON.stringify(body), identity));
  expect(JSON.parse(reply.write(settled))).toMatchObject({
    content: [{ id: expect.stringMatching(/^toolu_\w{24}$/) }, { id: 'toolu_1' }],
  });
});

test('AnthropicPassThrough sends repeated start events of a block once', () => {
  const [start, delta, stopped] = hello;
  const repeated = [start, delta, start, delta, stopped].map((event) => event ?? {});
  const { relay, output } = push([begin, ...repeated, end(), over]);
  expect(checkAnthropicStream(output + relay.close(settled))).toMatchObject({ text: 'HiHi' });
});

test('AnthropicPassThrough adds missing usage, which clients read without checking', () => {
  for (const last of [null, undefined]) {
    const { relay } = push([begin, ...hello, end({ usage: last }), over]);
    expect(relay.close(settled)).toContain('"output_tokens":8}');
  }
});

test('AnthropicPassThrough and readReply send tool_use if the answer calls a tool', () => {
  const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };
  const start = { type: 'content_block_start', index: 0, content_block: call };
  const extraFields = { type: 'message_delta', delta: {}, usage: { output_tokens: 7 } };
  const { relay } = push([begin, start, stop(0), end({ new: 1 }), extraFields, over]);
  expect(relay.close(settled)).toContain('"delta":{"stop_reason":"tool_use","stop_sequence":null}');
  const body = { ...message, content: [call], stop_reason: 'end_turn' };
  const reply = valueIn(readReply(JSON.stringify(body), identity));
  expect(JSON.parse(reply.write(settled))).toMatchObject({ stop_reason: 'tool_use' });
});

test.each([
  ['length', 'max_tokens', 'length'],
  ['stop', 'end_turn', 'stop'],
  ['content_filter', 'refusal', 'content_filter'],
  // If the answer has no call, a client would wait forever for a tool to run.
  ['tool_calls', 'end_turn', 'stop'],
  ['compaction', 'compaction', 'stop'],
])('the stop reason %s is sent as %s and logged as %s', (stopReason, sent, logged) => {
  const { relay } = push([begin, ...hello, end({ delta: { stop_reason: stopReason } }), over]);
  expect(relay.close(settled)).toContain(`"delta":{"stop_reason":"${sent}"}`);
  expect(relay.metrics.finishReason).toBe(logged);
  const body = JSON.stringify({ ...message, stop_reason: stopReason });
  const reply = valueIn(readReply(body, identity));
  expect(JSON.parse(reply.write(settled))).toMatchObject({ stop_reason: sent });
  expect(reply.metrics.finishReason).toBe(logged);
});

test("readReply sends tool_use for a call that ends with one of OpenAI's finish reasons", () => {
  const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };
  for (const reason of ['tool_calls', 'stop']) {
    const body = { ...message, content: [call], stop_reason: reason };
    const reply = valueIn(readReply(JSON.stringify(body), identity));
    expect(JSON.parse(reply.write(settled))).toMatchObject({ stop_reason: 'tool_use' });
  }
});

test('AnthropicPassThrough adds an empty signature to thinking, which clients require', () => {
  const unsigned = { type: 'thinking', thinking: '' };
  const signed = { ...unsigned, signature: 'c2ln' };
  const start = (index: number, content_block: object) => ({
    type: 'content_block_start',
    index,
    content_block,
  });
  const { parts } = push([begin, start(0, unsigned), stop(0), start(1, signed)]);
  expect(parts[1]).toContain('"content_block":{"type":"thinking","thinking":"","signature":""}');
  expect(parts[3]).toContain('"signature":"c2ln"');
});

test('AnthropicPassThrough keeps the stop reason if a later report has none', () => {
  const first = end({ delta: { stop_reason: 'max_tokens', stop_sequence: null } });
  const second = end({ delta: { stop_reason: null }, usage: { output_tokens: 7 } });
  const { relay } = push([begin, ...hello, first, second, over]);
  const [last = ''] = relay.close(asReported(relay)).split('\n\n');
  expect(JSON.parse(last.slice(last.indexOf('{')))).toEqual({ ...second, delta: first.delta });
  expect(relay.metrics).toMatchObject({ finishReason: 'length', usage: { outputTokens: 7 } });
});

test('readReply adds a missing type and role', () => {
  const content = [null, { type: 'text', text: 'Hi' }, 5];
  const bare = { id: 'theirs', model: 'claude-x', content, stop_reason: 'end_turn', usage };
  const reply = valueIn(readReply(JSON.stringify(bare), identity));
  expect(JSON.parse(reply.write(settled))).toMatchObject({
    type: 'message',
    role: 'assistant',
    content: [{ type: 'text', text: 'Hi' }],
  });
});

test('readReply keeps other usage fields when it adds missing counts', () => {
  const content = [{ type: 'text', text: 'Hi' }];
  const reported = { output_tokens: null, service_tier: 'standard' };
  const uncounted = { ...message, content, stop_reason: 'end_turn', usage: reported };
  const reply = valueIn(readReply(JSON.stringify(uncounted), identity));
  const { usage: written } = JSON.parse(reply.write(settled)) as { usage: unknown };
  expect(written).toEqual({
    ...{ input_tokens: 70, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
    ...{ output_tokens: 8, service_tier: 'standard' },
  });
});
