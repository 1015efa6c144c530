import { describe, expect, test } from 'bun:test';
import { RecordingSink } from '../../../../tests/support/recording-sink.ts';
import { eventBytesMax, openBlocksMax } from '../../../core/bounds.ts';
import { brokenFrame } from './frames.ts';
import { BedrockStreamReader, readFullReply } from './reader.ts';

type Event = readonly [name: string, fields: object | string];

function read(...events: readonly Event[]) {
  const sink = new RecordingSink();
  const reader = new BedrockStreamReader(sink);
  for (const [event, fields] of events) {
    const data = typeof fields === 'string' ? fields : JSON.stringify(fields);
    const failure = reader.push({ event, data });
    if (failure) return { sink, reader, failure };
  }
  return { sink, reader, failure: undefined };
}

const delta = (contentBlockIndex: number, piece: object): Event => [
  'contentBlockDelta',
  { contentBlockIndex, delta: piece },
];
const text = (index: number, content: string) => delta(index, { text: content });
const startBlock = (contentBlockIndex: number, start: object): Event => [
  'contentBlockStart',
  { contentBlockIndex, start },
];
const stopBlock = (contentBlockIndex: number): Event => ['contentBlockStop', { contentBlockIndex }];
const endMessage = (stopReason: string): Event => ['messageStop', { stopReason }];
const metadata = (usage: object): Event => ['metadata', { usage }];
const call = (index: number, id: string) =>
  startBlock(index, { toolUse: { toolUseId: id, name: 'f' } });
const input = (index: number, json: string) => delta(index, { toolUse: { input: json } });

describe('Bedrock stop reasons', () => {
  test.each([
    ['end_turn', 'stop'],
    ['tool_use', 'tool_calls'],
    ['max_tokens', 'length'],
    ['stop_sequence', 'stop_sequence'],
    ['guardrail_intervened', 'content_filter'],
    ['content_filtered', 'content_filter'],
    ['model_context_window_exceeded', 'context'],
    ['a_new_reason', 'stop'],
  ] as const)('%s becomes %s', (stopReason, reason) => {
    const { sink, reader } = read(text(0, 'a'), endMessage(stopReason));
    expect([sink.finishReason, reader.finished, reader.ended]).toEqual([reason, true, false]);
    const reply = new RecordingSink();
    const output = { message: { content: [{ text: 'a' }] } };
    expect(readFullReply(JSON.stringify({ output, stopReason }), reply)).toBeUndefined();
    expect(reply.finishReason).toBe(reason);
  });

  test.each(['malformed_model_output', 'malformed_tool_use'])('%s is a failure', (stopReason) => {
    const { reader, failure } = read(text(0, 'a'), endMessage(stopReason));
    expect(failure).toMatchObject({ kind: 'server', status: null });
    expect(reader.finished).toBe(false);
    const output = { message: { content: [{ text: 'a' }] } };
    const reply = new RecordingSink();
    expect(readFullReply(JSON.stringify({ output, stopReason }), reply)?.kind).toBe('server');
    expect(reply.order).toEqual([]);
  });

  test('end the answer, so that later events except usage are ignored', () => {
    const { sink, reader, failure } = read(
      text(0, 'a'),
      endMessage('end_turn'),
      text(0, 'too late'),
      ['throttlingException', { message: 'Slow down.' }],
      [brokenFrame, { message: 'Broken.' }],
      metadata({ inputTokens: 4, outputTokens: 1 }),
      metadata({ inputTokens: 400, outputTokens: 100 }),
    );
    expect(failure).toBeUndefined();
    expect(reader.ended).toBe(true);
    expect(sink.fullText).toBe('a');
    expect(sink.lastUsage).toMatchObject({ inputTokens: 4, outputTokens: 1 });
  });

  test('are required', () => {
    for (const fields of [{}, { stopReason: '' }, { stopReason: 4 }]) {
      expect(read(text(0, 'a'), ['messageStop', fields]).failure?.kind).toBe('malformed');
    }
  });
});

describe('Bedrock usage', () => {
  test.each([
    ['a fraction', { inputTokens: 1.5, outputTokens: 4 }],
    ['a negative count', { inputTokens: 9, outputTokens: -1 }],
    ['a string', { inputTokens: '9', outputTokens: 4 }],
  ])('with %s is ignored', (_, usage) => {
    const { sink, reader } = read(text(0, 'a'), endMessage('end_turn'), metadata(usage));
    expect(sink.lastUsage).toBeUndefined();
    expect(reader.ended).toBe(true);
  });

  test('of 0 tokens is accepted, because a guardrail may block the prompt', () => {
    const nothing = { inputTokens: 0, outputTokens: 0, totalTokens: 0 };
    const { sink } = read(
      text(0, 'Blocked.'),
      endMessage('guardrail_intervened'),
      metadata(nothing),
    );
    expect(sink.lastUsage).toMatchObject({ inputTokens: 0, cacheReadTokens: 0, outputTokens: 0 });
    const cached = { ...nothing, cacheReadInputTokens: 9 };
    expect(read(endMessage('end_turn'), metadata(cached)).sink.lastUsage?.cacheReadTokens).toBe(9);
  });

  test('ignores 1-hour cache writes that exceed the total', () => {
    const counts = { inputTokens: 1, outputTokens: 1, cacheWriteInputTokens: 10 };
    const cacheDetails = [{ ttl: '1h', inputTokens: 11 }];
    const { sink } = read(endMessage('end_turn'), metadata({ ...counts, cacheDetails }));
    expect(sink.lastUsage).toMatchObject({ cacheWriteTokens: 10, cacheWrite1hTokens: undefined });
  });
});

describe('Bedrock blocks', () => {
  test('of interleaved calls keep separate inputs', () => {
    const { sink } = read(
      call(0, 'tooluse_a'),
      call(1, 'tooluse_b'),
      input(1, '{"b"'),
      input(0, '{"a"'),
      input(1, ':2}'),
      input(0, ':1}'),
      stopBlock(1),
      stopBlock(0),
      endMessage('tool_use'),
    );
    expect(sink.calls).toMatchObject([
      { id: 'tooluse_a', arguments: '{"a":1}' },
      { id: 'tooluse_b', arguments: '{"b":2}' },
    ]);
  });

  test('with the same index are emitted separately', () => {
    const { sink } = read(
      delta(0, { reasoningContent: { text: 'Hm.' } }),
      delta(0, { reasoningContent: { signature: 'sig' } }),
      text(0, 'Let me '),
      text(0, 'look.'),
      call(0, 'tooluse_a'),
      text(0, ''),
      input(0, '{"a":1}'),
      call(0, 'tooluse_b'),
      stopBlock(0),
      text(0, ' Done.'),
      endMessage('tool_use'),
    );
    expect([sink.reasoningText, sink.fullText, sink.signatures]).toEqual([
      'Hm.',
      'Let me look. Done.',
      ['sig'],
    ]);
    expect(sink.calls).toMatchObject([{ arguments: '{"a":1}' }, { arguments: '{}' }]);
  });

  test('without a stop event end with the answer', () => {
    const { sink } = read(
      delta(0, { reasoningContent: { redactedContent: 'YWJj' } }),
      call(1, 'tooluse_a'),
      endMessage('tool_use'),
    );
    expect(sink.redacted).toEqual(['abc']);
    expect(sink.calls).toMatchObject([{ arguments: '{}' }]);
  });

  test('of reasoning may have only a signature', () => {
    const { sink } = read(
      delta(0, { reasoningContent: { signature: 'sig' } }),
      stopBlock(0),
      text(1, 'a'),
      stopBlock(1),
      endMessage('end_turn'),
    );
    expect(sink.order).toEqual(['signature', 'text', 'finish']);
    expect(sink.signatures).toEqual(['sig']);
  });

  test('of bytes are joined from chunks', () => {
    const { sink } = read(
      delta(0, { reasoningContent: { redactedContent: 'YQ==' } }),
      delta(0, { reasoningContent: { redactedContent: 'YmM=' } }),
      stopBlock(0),
      startBlock(1, { image: { format: 'png' } }),
      delta(1, { image: { source: { bytes: 'iVA=' } } }),
      delta(1, { image: { source: { bytes: 'Tkc=' } } }),
      stopBlock(1),
      endMessage('end_turn'),
    );
    expect(sink.redacted).toEqual(['abc']);
    expect(sink.images).toEqual([{ mediaType: 'image/png', base64: 'iVBORw==' }]);
  });

  test('with citations have their citations emitted', () => {
    const source = {
      title: 'Weather',
      location: { web: { url: 'https://weather.example/', domain: 'weather.example' } },
      sourceContent: [{ text: 'Rain.' }],
    };
    const expected = { url: 'https://weather.example/', title: 'Weather', quote: 'Rain.' };
    const { sink } = read(
      text(0, 'It rains.'),
      delta(0, { citation: source }),
      endMessage('end_turn'),
    );
    expect(sink.citations).toEqual([{ ...expected, range: { start: 0, end: 9 } }]);
    const citationFirst = read(
      delta(0, { citation: source }),
      text(0, 'It rains.'),
      endMessage('end_turn'),
    );
    expect(citationFirst.sink.citations).toEqual(sink.citations);
    const citationOnly = read(
      text(0, ''),
      delta(0, { citation: source }),
      stopBlock(0),
      endMessage('end_turn'),
    );
    expect(citationOnly.sink.citations).toEqual([{ ...expected, range: { start: 0, end: 0 } }]);
    const reply = new RecordingSink();
    const cited = { citationsContent: { content: [{ text: 'It rains.' }], citations: [source] } };
    const output = { message: { content: [cited] } };
    readFullReply(JSON.stringify({ output, stopReason: 'end_turn' }), reply);
    expect([reply.fullText, reply.citations]).toEqual(['It rains.', sink.citations]);
  });

  test("of Amazon's own tools are not calls", () => {
    const toolUse = { toolUseId: 's', name: 'nova_grounding', type: 'server_tool_use' };
    const { sink } = read(
      ...[startBlock(0, { toolUse }), input(0, '{"query":"rain"}'), stopBlock(0)],
      ...[text(1, 'It rains.'), endMessage('end_turn')],
    );
    const reply = new RecordingSink();
    const content = [{ toolUse: { ...toolUse, input: {} } }, { text: 'It rains.' }];
    readFullReply(
      JSON.stringify({ output: { message: { content } }, stopReason: 'end_turn' }),
      reply,
    );
    for (const { calls, fullText, finishReason } of [sink, reply]) {
      expect({ calls, fullText, finishReason }).toEqual({
        calls: [],
        fullText: 'It rains.',
        finishReason: 'stop',
      });
    }
  });

  test('and events of unknown types are ignored', () => {
    const { sink, failure } = read(
      startBlock(0, { videoUse: {} }),
      delta(0, { video: { bytes: 'YQ==' } }),
      delta(0, { image: { source: { bytes: 'YQ==' } } }),
      ['somethingNew', { message: 'Hello!' }],
      text(1, 'a'),
      endMessage('end_turn'),
    );
    expect(failure).toBeUndefined();
    expect(sink.order).toEqual(['text', 'finish']);
  });

  test('are limited in number and size', () => {
    const many = Array.from({ length: openBlocksMax + 1 }, (_, index) => index);
    const calls = many.map((at) => call(at, `tooluse_${at}`));
    expect(read(...calls).failure?.kind).toBe('malformed');
    const piece = Buffer.alloc(1024 * 1024, 'x').toString('base64');
    const pieces = many.map(() => delta(0, { reasoningContent: { redactedContent: piece } }));
    expect(read(...pieces.slice(0, eventBytesMax / (1024 * 1024))).failure).toBeUndefined();
    expect(read(...pieces).failure?.kind).toBe('malformed');
    const signature = 'x'.repeat(1024 * 1024);
    const signatures = many.map(() => delta(0, { reasoningContent: { signature } }));
    expect(read(...signatures).failure?.kind).toBe('malformed');
    const reasoningBlocks = many.map((at) =>
      delta(at, { reasoningContent: { redactedContent: 'YQ==' } }),
    );
    expect(read(...reasoningBlocks).failure?.kind).toBe('malformed');
  });
});

describe('Bedrock failures', () => {
  test.each([
    ['throttlingException', 'rate_limited'],
    ['serviceUnavailableException', 'overloaded'],
    ['modelTimeoutException', 'timeout'],
    ['validationException', 'request'],
    ['internalServerException', 'server'],
    ['modelStreamErrorException', 'server'],
    ['aNewException', 'server'],
  ] as const)('classify %s as %s', (name, kind) => {
    const { failure, reader } = read(text(0, 'a'), [name, { message: 'It broke.' }]);
    expect(failure).toMatchObject({ kind, message: 'It broke.' });
    expect(reader.finished).toBe(false);
  });

  test('are classified by code without an exception name', () => {
    const { failure } = read(['error', { code: 'ThrottlingException', message: 'Slow down.' }]);
    expect(failure).toMatchObject({ kind: 'rate_limited', message: 'Slow down.' });
  });

  test('include broken frames and invalid JSON', () => {
    expect(read([brokenFrame, { message: 'The frame broke.' }]).failure).toMatchObject({
      kind: 'malformed',
      message: 'The frame broke.',
    });
    expect(read(['contentBlockDelta', '{"delta":']).failure?.kind).toBe('malformed');
  });

  test('include a second messageStart after output', () => {
    const start: Event = ['messageStart', { role: 'assistant' }];
    expect(read(start, start, text(0, 'a')).failure).toBeUndefined();
    expect(read(start, text(0, 'a'), start).failure?.kind).toBe('malformed');
  });

  test.each([
    ['invalid JSON', '<html>', 'malformed'],
    ['missing content', '{"output":{},"stopReason":"end_turn"}', 'malformed'],
    ['a missing stop reason', '{"output":{"message":{"content":[]}}}', 'malformed'],
    ['an error', '{"message":"It broke."}', 'server'],
  ])('include a reply with %s', (_, body, kind) => {
    const sink = new RecordingSink();
    expect(readFullReply(body, sink)?.kind as string).toBe(kind);
    expect(sink.order).toEqual([]);
  });
});
