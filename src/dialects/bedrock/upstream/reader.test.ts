import { describe, expect, test } from 'bun:test';
import { RecordingSink } from '../../../../tests/support/recording-sink.ts';
import { eventBytesMax, openBlocksMax } from '../../../core/bounds.ts';
import { brokenFrame } from './frames.ts';
import { BedrockStreamReader, readFullReply } from './reader.ts';

type Event = readonly [name: string, fields: object | string];

function hear(...events: readonly Event[]) {
  const sink = new RecordingSink();
  const reader = new BedrockStreamReader(sink);
  for (const [event, fields] of events) {
    const data = typeof fields === 'string' ? fields : JSON.stringify(fields);
    const failure = reader.push({ event, data });
    if (failure) return { told: sink, reader, failure };
  }
  return { told: sink, reader, failure: undefined };
}

const delta = (contentBlockIndex: number, piece: object): Event => [
  'contentBlockDelta',
  { contentBlockIndex, delta: piece },
];
const text = (index: number, said: string) => delta(index, { text: said });
const opens = (contentBlockIndex: number, start: object): Event => [
  'contentBlockStart',
  { contentBlockIndex, start },
];
const stops = (contentBlockIndex: number): Event => ['contentBlockStop', { contentBlockIndex }];
const ends = (stopReason: string): Event => ['messageStop', { stopReason }];
const used = (usage: object): Event => ['metadata', { usage }];
const call = (index: number, id: string) => opens(index, { toolUse: { toolUseId: id, name: 'f' } });
const input = (index: number, json: string) => delta(index, { toolUse: { input: json } });

describe('the end of an answer', () => {
  test.each([
    ['end_turn', 'stop'],
    ['tool_use', 'tool_calls'],
    ['max_tokens', 'length'],
    ['stop_sequence', 'stop_sequence'],
    ['guardrail_intervened', 'content_filter'],
    ['content_filtered', 'content_filter'],
    ['model_context_window_exceeded', 'context'],
    ['a_new_reason', 'stop'],
  ] as const)('%s is %s', (word, reason) => {
    const { told, reader } = hear(text(0, 'a'), ends(word));
    expect([told.finishReason, reader.finished, reader.ended]).toEqual([reason, true, false]);
    const whole = new RecordingSink();
    const output = { message: { content: [{ text: 'a' }] } };
    expect(readFullReply(JSON.stringify({ output, stopReason: word }), whole)).toBeUndefined();
    expect(whole.finishReason).toBe(reason);
  });

  test.each(['malformed_model_output', 'malformed_tool_use'])('%s is a failure', (word) => {
    const { reader, failure } = hear(text(0, 'a'), ends(word));
    expect(failure).toMatchObject({ kind: 'server', status: null });
    expect(reader.finished).toBe(false);
    const output = { message: { content: [{ text: 'a' }] } };
    const whole = new RecordingSink();
    expect(readFullReply(JSON.stringify({ output, stopReason: word }), whole)?.kind).toBe('server');
    expect(whole.order).toEqual([]);
  });

  test('is followed by the usage, and by nothing else', () => {
    const { told, reader, failure } = hear(
      text(0, 'a'),
      ends('end_turn'),
      text(0, 'too late'),
      ['throttlingException', { message: 'Slow down.' }],
      [brokenFrame, { message: 'Broken.' }],
      used({ inputTokens: 4, outputTokens: 1 }),
      used({ inputTokens: 400, outputTokens: 100 }),
    );
    expect(failure).toBeUndefined();
    expect(reader.ended).toBe(true);
    expect(told.fullText).toBe('a');
    expect(told.lastUsage).toMatchObject({ inputTokens: 4, outputTokens: 1 });
  });

  test('needs a reason', () => {
    for (const fields of [{}, { stopReason: '' }, { stopReason: 4 }]) {
      expect(hear(text(0, 'a'), ['messageStop', fields]).failure?.kind).toBe('malformed');
    }
  });
});

describe('usage', () => {
  test.each([
    ['a prompt of nothing', { inputTokens: 0, outputTokens: 4 }],
    ['half a token', { inputTokens: 1.5, outputTokens: 4 }],
    ['less than nothing', { inputTokens: 9, outputTokens: -1 }],
    ['a text', { inputTokens: '9', outputTokens: 4 }],
  ])('of %s is not believed', (_, usage) => {
    const { told, reader } = hear(text(0, 'a'), ends('end_turn'), used(usage));
    expect(told.lastUsage).toBeUndefined();
    expect(reader.ended).toBe(true);
  });

  test('of nothing at all is believed: a guardrail stopped the prompt', () => {
    const nothing = { inputTokens: 0, outputTokens: 0, totalTokens: 0 };
    const { told } = hear(text(0, 'Blocked.'), ends('guardrail_intervened'), used(nothing));
    expect(told.lastUsage).toMatchObject({ inputTokens: 0, cacheReadTokens: 0, outputTokens: 0 });
    const cached = { ...nothing, cacheReadInputTokens: 9 };
    expect(hear(ends('end_turn'), used(cached)).told.lastUsage?.cacheReadTokens).toBe(9);
  });

  test('for an hour that is more than the whole is not believed', () => {
    const counts = { inputTokens: 1, outputTokens: 1, cacheWriteInputTokens: 10 };
    const cacheDetails = [{ ttl: '1h', inputTokens: 11 }];
    const { told } = hear(ends('end_turn'), used({ ...counts, cacheDetails }));
    expect(told.lastUsage).toMatchObject({ cacheWriteTokens: 10, cacheWrite1hTokens: undefined });
  });
});

describe('blocks', () => {
  test('of several calls at once keep their inputs apart', () => {
    const { told } = hear(
      call(0, 'tooluse_a'),
      call(1, 'tooluse_b'),
      input(1, '{"b"'),
      input(0, '{"a"'),
      input(1, ':2}'),
      input(0, ':1}'),
      stops(1),
      stops(0),
      ends('tool_use'),
    );
    expect(told.calls).toMatchObject([
      { id: 'tooluse_a', arguments: '{"a":1}' },
      { id: 'tooluse_b', arguments: '{"b":2}' },
    ]);
  });

  test('that share a number are told apart, and nothing of them is lost', () => {
    const { told } = hear(
      delta(0, { reasoningContent: { text: 'Hm.' } }),
      delta(0, { reasoningContent: { signature: 'sig' } }),
      text(0, 'Let me '),
      text(0, 'look.'),
      call(0, 'tooluse_a'),
      text(0, ''),
      input(0, '{"a":1}'),
      call(0, 'tooluse_b'),
      stops(0),
      text(0, ' Done.'),
      ends('tool_use'),
    );
    expect([told.reasoningText, told.fullText, told.signatures]).toEqual([
      'Hm.',
      'Let me look. Done.',
      ['sig'],
    ]);
    expect(told.calls).toMatchObject([{ arguments: '{"a":1}' }, { arguments: '{}' }]);
  });

  test('that never end are ended by the answer', () => {
    const { told } = hear(
      delta(0, { reasoningContent: { redactedContent: 'YWJj' } }),
      call(1, 'tooluse_a'),
      ends('tool_use'),
    );
    expect(told.redacted).toEqual(['abc']);
    expect(told.calls).toMatchObject([{ arguments: '{}' }]);
  });

  test('of a thought may have a proof and no words', () => {
    const { told } = hear(
      delta(0, { reasoningContent: { signature: 'sig' } }),
      stops(0),
      text(1, 'a'),
      stops(1),
      ends('end_turn'),
    );
    expect(told.order).toEqual(['signature', 'text', 'finish']);
    expect(told.signatures).toEqual(['sig']);
  });

  test('of bytes are put together from their pieces', () => {
    const { told } = hear(
      delta(0, { reasoningContent: { redactedContent: 'YQ==' } }),
      delta(0, { reasoningContent: { redactedContent: 'YmM=' } }),
      stops(0),
      opens(1, { image: { format: 'png' } }),
      delta(1, { image: { source: { bytes: 'iVA=' } } }),
      delta(1, { image: { source: { bytes: 'Tkc=' } } }),
      stops(1),
      ends('end_turn'),
    );
    expect(told.redacted).toEqual(['abc']);
    expect(told.images).toEqual([{ mediaType: 'image/png', base64: 'iVBORw==' }]);
  });

  test('with sources tell them', () => {
    const source = {
      title: 'Weather',
      location: { web: { url: 'https://weather.example/', domain: 'weather.example' } },
      sourceContent: [{ text: 'Rain.' }],
    };
    const expected = { url: 'https://weather.example/', title: 'Weather', quote: 'Rain.' };
    const { told } = hear(text(0, 'It rains.'), delta(0, { citation: source }), ends('end_turn'));
    expect(told.citations).toEqual([{ ...expected, range: { start: 0, end: 9 } }]);
    const before = hear(delta(0, { citation: source }), text(0, 'It rains.'), ends('end_turn'));
    expect(before.told.citations).toEqual(told.citations);
    const alone = hear(text(0, ''), delta(0, { citation: source }), stops(0), ends('end_turn'));
    expect(alone.told.citations).toEqual([{ ...expected, range: { start: 0, end: 0 } }]);
    const whole = new RecordingSink();
    const cited = { citationsContent: { content: [{ text: 'It rains.' }], citations: [source] } };
    const output = { message: { content: [cited] } };
    readFullReply(JSON.stringify({ output, stopReason: 'end_turn' }), whole);
    expect([whole.fullText, whole.citations]).toEqual(['It rains.', told.citations]);
  });

  test('of tools that Amazon runs itself are no calls', () => {
    const toolUse = { toolUseId: 's', name: 'nova_grounding', type: 'server_tool_use' };
    const { told } = hear(
      ...[opens(0, { toolUse }), input(0, '{"query":"rain"}'), stops(0)],
      ...[text(1, 'It rains.'), ends('end_turn')],
    );
    const whole = new RecordingSink();
    const content = [{ toolUse: { ...toolUse, input: {} } }, { text: 'It rains.' }];
    readFullReply(
      JSON.stringify({ output: { message: { content } }, stopReason: 'end_turn' }),
      whole,
    );
    for (const { calls, fullText, finishReason } of [told, whole]) {
      expect({ calls, fullText, finishReason }).toEqual({
        calls: [],
        fullText: 'It rains.',
        finishReason: 'stop',
      });
    }
  });

  test('and events of kinds that are new say nothing', () => {
    const { told, failure } = hear(
      opens(0, { videoUse: {} }),
      delta(0, { video: { bytes: 'YQ==' } }),
      delta(0, { image: { source: { bytes: 'YQ==' } } }),
      ['somethingNew', { message: 'Hello!' }],
      text(1, 'a'),
      ends('end_turn'),
    );
    expect(failure).toBeUndefined();
    expect(told.order).toEqual(['text', 'finish']);
  });

  test('are not kept without end', () => {
    const many = Array.from({ length: openBlocksMax + 1 }, (_, at) => at);
    const calls = many.map((at) => call(at, `tooluse_${at}`));
    expect(hear(...calls).failure?.kind).toBe('malformed');
    const piece = Buffer.alloc(1024 * 1024, 'x').toString('base64');
    const pieces = many.map(() => delta(0, { reasoningContent: { redactedContent: piece } }));
    expect(hear(...pieces.slice(0, eventBytesMax / (1024 * 1024))).failure).toBeUndefined();
    expect(hear(...pieces).failure?.kind).toBe('malformed');
    const signature = 'x'.repeat(1024 * 1024);
    const proofs = many.map(() => delta(0, { reasoningContent: { signature } }));
    expect(hear(...proofs).failure?.kind).toBe('malformed');
    const thoughts = many.map((at) => delta(at, { reasoningContent: { redactedContent: 'YQ==' } }));
    expect(hear(...thoughts).failure?.kind).toBe('malformed');
  });
});

describe('a failure', () => {
  test.each([
    ['throttlingException', 'rate_limited'],
    ['serviceUnavailableException', 'overloaded'],
    ['modelTimeoutException', 'timeout'],
    ['validationException', 'request'],
    ['internalServerException', 'server'],
    ['modelStreamErrorException', 'server'],
    ['aNewException', 'server'],
  ] as const)('by the name of %s is of the kind %s', (name, kind) => {
    const { failure, reader } = hear(text(0, 'a'), [name, { message: 'It broke.' }]);
    expect(failure).toMatchObject({ kind, message: 'It broke.' });
    expect(reader.finished).toBe(false);
  });

  test('that no exception stands for is told with its code', () => {
    const { failure } = hear(['error', { code: 'ThrottlingException', message: 'Slow down.' }]);
    expect(failure).toMatchObject({ kind: 'rate_limited', message: 'Slow down.' });
  });

  test('is a frame that cannot be read, or an event', () => {
    expect(hear([brokenFrame, { message: 'The frame broke.' }]).failure).toMatchObject({
      kind: 'malformed',
      message: 'The frame broke.',
    });
    expect(hear(['contentBlockDelta', '{"delta":']).failure?.kind).toBe('malformed');
  });

  test('is an answer that begins again', () => {
    const start: Event = ['messageStart', { role: 'assistant' }];
    expect(hear(start, start, text(0, 'a')).failure).toBeUndefined();
    expect(hear(start, text(0, 'a'), start).failure?.kind).toBe('malformed');
  });

  test.each([
    ['no JSON', '<html>', 'malformed'],
    ['no content', '{"output":{},"stopReason":"end_turn"}', 'malformed'],
    ['no reason', '{"output":{"message":{"content":[]}}}', 'malformed'],
    ['an error', '{"message":"It broke."}', 'server'],
  ])('is a whole answer with %s', (_, body, kind) => {
    const sink = new RecordingSink();
    expect(readFullReply(body, sink)?.kind as string).toBe(kind);
    expect(sink.order).toEqual([]);
  });
});
