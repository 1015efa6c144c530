import { describe, expect, test } from 'bun:test';
import { readEvents, RecordingSink } from '../../../../tests/support/recording-sink.ts';
import { eventBytesMax } from '../../../core/bounds.ts';
import { GeminiStreamReader, readFullReply, readUsage } from './reader.ts';

const hear = (...chunks: readonly unknown[]) =>
  readEvents((listener) => new GeminiStreamReader(listener), chunks);

const says = (parts: readonly object[], finishReason?: string) => ({
  candidates: [{ content: { role: 'model', parts }, finishReason, index: 0 }],
});
const ends = (finishReason: string, more: object = {}) => ({
  candidates: [{ content: {}, finishReason, ...more }],
});

describe('the end of an answer', () => {
  test.each([
    ['STOP', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['SAFETY', 'content_filter'],
    ['RECITATION', 'content_filter'],
    ['LANGUAGE', 'content_filter'],
    ['OTHER', 'content_filter'],
    ['BLOCKLIST', 'content_filter'],
    ['PROHIBITED_CONTENT', 'content_filter'],
    ['SPII', 'content_filter'],
    ['MODEL_ARMOR', 'content_filter'],
    ['IMAGE_SAFETY', 'content_filter'],
    ['IMAGE_RECITATION', 'content_filter'],
    ['NO_IMAGE', 'stop'],
    ['A_NEW_REASON', 'stop'],
  ] as const)('%s is %s', (word, reason) => {
    const { sink, reader, failure } = hear(ends(word));
    expect(failure).toBeUndefined();
    expect(reader.finished).toBe(true);
    expect(sink.finishReason).toBe(reason);
  });

  test('STOP after a call becomes tool_calls, but the output limit stays length', () => {
    const call = { functionCall: { name: 'now', args: {} } };
    expect(hear(says([call]), ends('STOP')).sink.finishReason).toBe('tool_calls');
    expect(hear(says([call], 'STOP')).sink.finishReason).toBe('tool_calls');
    expect(hear(says([call]), ends('MAX_TOKENS')).sink.finishReason).toBe('length');
  });

  test.each(['MALFORMED_FUNCTION_CALL', 'UNEXPECTED_TOOL_CALL', 'TOO_MANY_TOOL_CALLS'])(
    '%s is a failure that another attempt may mend',
    (word) => {
      const { sink, reader, failure } = hear(ends(word, { finishMessage: 'print(now(' }));
      expect(failure).toMatchObject({ kind: 'server', status: null });
      expect(failure?.message).toContain(`${word}. print(now(`);
      expect(reader.finished).toBe(false);
      expect(sink.finishReason).toBeNull();
    },
  );

  test('a prompt that was blocked ends the answer before it began', () => {
    const { sink, reader } = hear({ promptFeedback: { blockReason: 'SAFETY' } });
    expect(reader.finished).toBe(true);
    expect(sink.finishReason).toBe('content_filter');
    expect(hear({ promptFeedback: { safetyRatings: [] } }).reader.finished).toBe(false);
  });

  test('usage may follow it, and half an event', () => {
    const late = { ...says([{ text: '' }], 'STOP'), usageMetadata: { promptTokenCount: 3 } };
    const { sink, failure } = hear(ends('STOP'), late, 'half a {');
    expect(failure).toBeUndefined();
    expect(sink.order).toEqual(['finish']);
    expect(sink.lastUsage?.inputTokens).toBe(3);
  });

  test('stands in every chunk of older models, and only the last one means it', () => {
    const { sink, reader } = hear(...['1', ' 2', ' 3'].map((text) => says([{ text }], 'STOP')));
    expect([sink.fullText, sink.finishReason, reader.finished]).toEqual(['1 2 3', 'stop', true]);
    const calls = ['f', 'g'].map((name) => says([{ functionCall: { name, args: {} } }], 'STOP'));
    const called = hear(...calls, ends('STOP')).sink;
    expect(called.calls.map(({ name }) => name)).toEqual(['f', 'g']);
    expect(called.finishReason).toBe('tool_calls');
    expect(hear(says([{ text: '1' }], 'STOP'), ends('SAFETY')).sink).toMatchObject({
      said: '1',
      finishReason: 'content_filter',
    });
  });

  test('is not reached before a finish reason', () => {
    const unspecified = says([{ text: 'a' }], 'FINISH_REASON_UNSPECIFIED');
    expect(hear(says([{ text: 'a' }]), unspecified, {}).reader.finished).toBe(false);
  });
});

describe('failures', () => {
  const error = { code: 503, message: 'The model is overloaded.', status: 'UNAVAILABLE' };

  test.each([[{ error }], [[{ error }]]])('inside a stream: %j', (chunk) => {
    const { failure } = hear(says([{ text: 'a' }]), chunk);
    expect(failure).toEqual({
      kind: 'overloaded',
      status: 503,
      message: 'The model is overloaded.',
      retryAfterSeconds: null,
    });
  });

  test.each(['', 'null', '3', '"a"', '[]', '{"candidates":'])('what is no object: %p', (chunk) => {
    expect(hear(chunk).failure?.kind).toBe('malformed');
  });

  test.each([
    [{ error }, 'overloaded'],
    [[{ error }], 'overloaded'],
    [{}, 'malformed'],
    [says([{ text: 'a' }]), 'malformed'],
    [[], 'malformed'],
  ] as const)('of a whole answer: %j', (body, kind) => {
    expect(readFullReply(JSON.stringify(body), new RecordingSink())?.kind).toBe(kind);
  });

  test.each([
    [{ candidates: 'none' }],
    [{ candidates: [null] }],
    [{ candidates: [{ content: { parts: 'none' } }] }],
    [{ candidates: [{ content: { parts: [null, 3, {}, { text: 3 }, { functionCall: 'x' }] } }] }],
    [
      {
        candidates: [{ content: { parts: [{ functionCall: {} }, { inlineData: { data: 'A' } }] } }],
      },
    ],
    [{ usageMetadata: 'none', promptFeedback: 'none' }],
    [{ candidates: [{ groundingMetadata: { groundingChunks: [null, { web: null }] } }] }],
  ])('do not come from values of unexpected types: %j', (chunk) => {
    const { sink, failure } = hear(chunk);
    expect(failure).toBeUndefined();
    expect(sink.order).toEqual([]);
  });
});

describe('the words', () => {
  test('thoughts, text and pictures come in their order', () => {
    const { sink } = hear(
      says([{ text: 'Hm. ', thought: true }]),
      says([{ text: 'So.', thought: true }, { text: 'Here:' }]),
      says([{ inlineData: { mimeType: 'image/png', data: 'AAAA' }, thoughtSignature: 'huge' }]),
      says([{ inlineData: { mimeType: 'audio/wav', data: 'AAAA' } }, { text: '' }], 'STOP'),
    );
    expect(sink.reasoningText).toBe('Hm. So.');
    expect(sink.fullText).toBe('Here:');
    expect(sink.images).toEqual([{ mediaType: 'image/png', base64: 'AAAA' }]);
    expect(sink.order).toEqual(['reasoning', 'text', 'image', 'finish']);
    expect(sink.signatures).toEqual([]);
  });

  test('a signature after a thought ends it, before the text it stands on', () => {
    const { sink } = hear(
      says([
        { text: 'Hm.', thought: true },
        { text: 'Yes', thoughtSignature: 'S1' },
      ]),
      says([{ text: '.' }], 'STOP'),
    );
    expect(sink.order).toEqual(['reasoning', 'signature', 'text', 'finish']);
    expect(sink.signatures).toEqual(['gemini:S1']);
  });

  test('a signature of a thought itself', () => {
    const { sink } = hear(says([{ text: 'Hm.', thought: true, thoughtSignature: 'S1' }], 'STOP'));
    expect(sink.order).toEqual(['reasoning', 'signature', 'finish']);
  });

  test('a signature of a text comes after all of it, before the next call', () => {
    const { sink } = hear(
      says([{ text: 'Let', thoughtSignature: 'S1' }]),
      says([{ text: ' me see.' }]),
      says([{ functionCall: { name: 'now', args: {} }, thoughtSignature: 'S2' }], 'STOP'),
    );
    expect(sink.order).toEqual(['text', 'signature', 'call', 'arguments', 'finish']);
    expect(sink.signatures).toEqual(['gemini:S1', 'gemini:S2']);
    expect(sink.calls[0]?.signature).toBe('gemini:S2');
  });

  test.each([
    ['alone', { thoughtSignature: 'S1' }],
    ['beside an empty text', { text: '', thoughtSignature: 'S1' }],
  ])('a signature %s, before the end, with it and behind it', (_, bare) => {
    const streams = [
      [says([{ text: 'Yes' }]), says([bare]), ends('MAX_TOKENS')],
      [says([{ text: 'Yes' }]), says([bare], 'MAX_TOKENS')],
      [says([{ text: 'Yes' }], 'MAX_TOKENS'), says([bare], 'STOP')],
      [says([{ text: 'Yes' }], 'MAX_TOKENS'), says([bare])],
    ];
    for (const chunks of streams) {
      const { sink, reader } = hear(...chunks);
      expect(sink).toMatchObject({ said: 'Yes', finishReason: 'length' });
      expect([sink.signatures, reader.finished]).toEqual([['gemini:S1'], true]);
    }
  });

  test('a signature alone after a thought belongs to it, and stays before the call', () => {
    const call = { functionCall: { name: 'now', args: {} } };
    const thought = { text: 'Hm.', thought: true };
    const { sink } = hear(
      says([thought]),
      says([{ thoughtSignature: 'S1' }]),
      says([call], 'STOP'),
    );
    expect(sink.order).toEqual(['reasoning', 'signature', 'call', 'arguments', 'finish']);
    expect(sink.calls[0]?.signature).toBe('gemini:S1');
  });

  test('of a list of chunks, where no events are sent, all are told', () => {
    const usageMetadata = (candidatesTokenCount: number) => ({
      usageMetadata: { promptTokenCount: 4, candidatesTokenCount },
    });
    const chunks = [
      { ...says([{ text: 'One' }], 'STOP'), ...usageMetadata(1) },
      { ...says([{ text: ' two' }], 'STOP'), ...usageMetadata(3) },
    ];
    const sink = new RecordingSink();
    expect(readFullReply(JSON.stringify(chunks), sink)).toBeUndefined();
    expect([sink.fullText, sink.finishReason]).toEqual(['One two', 'stop']);
    // The counts of a chunk include all chunks before it.
    expect(sink.lastUsage).toMatchObject({ inputTokens: 4, outputTokens: 3 });
    expect(hear(chunks).sink.fullText).toBe('One two');
    const cut = [says([{ text: 'One' }]), says([{ text: ' two' }])];
    expect(readFullReply(JSON.stringify(cut), new RecordingSink())?.kind).toBe('malformed');
    expect(readFullReply(JSON.stringify(chunks).slice(0, -1), new RecordingSink())?.kind).toBe(
      'malformed',
    );
  });

  test('the sources of a text', () => {
    const web = { uri: 'https://a.example/', title: 'a.example' };
    const { sink } = hear(
      says([{ text: 'So it is.' }]),
      ends('STOP', { groundingMetadata: { groundingChunks: [{ web }, { web: { uri: 'b:c' } }] } }),
    );
    expect(sink.citations).toEqual([
      { url: 'https://a.example/', title: 'a.example', quote: '', range: null },
      { url: 'b:c', title: '', quote: '', range: null },
    ]);
  });

  test.each([undefined, 'STOP'])(
    'sources that come behind the end, with the reason %p',
    (reason) => {
      const groundingMetadata = { groundingChunks: [{ web: { uri: 'https://a.example/' } }] };
      const { sink } = hear(says([{ text: 'So it is.' }], 'MAX_TOKENS'), {
        candidates: [
          { content: { parts: [{ text: '' }] }, finishReason: reason, groundingMetadata },
        ],
      });
      expect(sink.citations.map(({ url }) => url)).toEqual(['https://a.example/']);
      expect([sink.fullText, sink.finishReason]).toEqual(['So it is.', 'length']);
    },
  );
});

describe('calls', () => {
  test('have the id that Gemini gave, or one of ours', () => {
    const { sink } = hear(
      says([
        { functionCall: { id: 'abc', name: 'now', args: {} } },
        { functionCall: { name: 'now' } },
      ]),
      ends('STOP'),
    );
    expect(sink.calls.map(({ name, arguments: json }) => [name, json])).toEqual([
      ['now', '{}'],
      ['now', '{}'],
    ]);
    expect(sink.calls[0]?.id).toBe('abc');
    expect(sink.calls[1]?.id).toMatch(/^call_[0-9a-z]{24}$/);
  });

  test('keep numbers that no float can hold', () => {
    const call = '{"functionCall":{"name":"a","args":{"id":12345678901234567890}}}';
    const { sink } = hear(`{"candidates":[{"content":{"parts":[${call}]}}]}`);
    expect(sink.calls[0]?.arguments).toBe('{"id":12345678901234567890}');
  });

  test('in pieces are whole when the next begins, or the answer ends', () => {
    const piece = (jsonPath: string, stringValue: string) => ({
      functionCall: {
        partialArgs: [{ jsonPath, stringValue, willContinue: true }],
        willContinue: true,
      },
    });
    const { sink } = hear(
      says([{ functionCall: { name: 'a', willContinue: true } }]),
      says([piece('$.x', 'one ')]),
      says([piece('$.x', 'two')]),
      says([{ functionCall: { name: 'b', willContinue: true } }, piece('$.y', 'three')]),
      ends('STOP'),
    );
    expect(sink.calls.map(({ arguments: json }) => json)).toEqual([
      '{"x":"one two"}',
      '{"y":"three"}',
    ]);
  });

  test('in pieces end where no more are announced', () => {
    const piece = { jsonPath: '$.x', numberValue: 1 };
    const { sink } = hear(
      says([{ functionCall: { name: 'a', willContinue: true } }]),
      says([{ functionCall: { partialArgs: [piece] } }, { text: 'So.' }]),
    );
    expect(sink.order).toEqual(['call', 'arguments', 'text']);
    expect(sink.calls[0]?.arguments).toBe('{"x":1}');
  });

  test('in pieces that never end are a failure, not a full memory', () => {
    const stringValue = 'a'.repeat(eventBytesMax / 4);
    const chunk = says([
      { functionCall: { partialArgs: [{ jsonPath: '$.x', stringValue }], willContinue: true } },
    ]);
    const open = says([{ functionCall: { name: 'a', willContinue: true } }]);
    expect(hear(open, chunk, chunk, chunk).failure).toBeUndefined();
    expect(hear(open, chunk, chunk, chunk, chunk).failure?.kind).toBe('malformed');
  });
});

test('the classes do not overlap', () => {
  expect(
    readUsage({
      promptTokenCount: 100,
      cachedContentTokenCount: 60,
      toolUsePromptTokenCount: 7,
      candidatesTokenCount: 20,
      thoughtsTokenCount: 5,
      totalTokenCount: 132,
    }),
  ).toEqual({
    inputTokens: 47,
    cacheReadTokens: 60,
    cacheWriteTokens: 0,
    outputTokens: 25,
    reasoningTokens: 5,
  });
});

describe('sounds', () => {
  const of = (modality: string, tokenCount: unknown) => ({ modality, tokenCount });
  const heard = (promptTokensDetails: unknown, cacheTokensDetails?: unknown) =>
    readUsage({
      promptTokenCount: 100,
      cachedContentTokenCount: 60,
      toolUsePromptTokenCount: 7,
      candidatesTokenCount: 5,
      promptTokensDetails,
      cacheTokensDetails,
    });
  const split = (inputTokens: number, inputAudioTokens?: number) => ({
    inputTokens,
    inputAudioTokens,
    cacheReadTokens: 60,
    cacheWriteTokens: 0,
    outputTokens: 5,
    reasoningTokens: 0,
  });

  test('are neither words nor cached', () => {
    const prompt = [of('TEXT', 30), of('AUDIO', 70)];
    expect(heard(prompt, [of('TEXT', 10), of('AUDIO', 50)])).toEqual(split(27, 20));
    expect(heard(prompt)).toEqual(split(7, 40));
    expect(heard([of('AUDIO', 10), of('VIDEO', 80), of('AUDIO', 10)])).toEqual(split(27, 20));
  });

  test.each([
    [[of('AUDIO', 101)], undefined],
    [[of('AUDIO', -1)], undefined],
    [[of('AUDIO', '70')], undefined],
    [[of('AUDIO', 70)], [of('AUDIO', 61)]],
    [[of('AUDIO', 40)], [of('AUDIO', 41)]],
    ['AUDIO', { modality: 'AUDIO' }],
    [[null, of('TEXT', 100)], [7]],
  ])('with impossible counts count as words: %j, cached %j', (prompt, cached) => {
    expect(heard(prompt, cached)).toEqual(split(47));
  });
});

test('output that only the total knows of is counted', () => {
  expect(
    readUsage({ promptTokenCount: 10, candidatesTokenCount: 3, totalTokenCount: 20 }),
  ).toMatchObject({ inputTokens: 10, outputTokens: 10, reasoningTokens: 0 });
});

test('no more tokens are cached than the prompt has', () => {
  expect(readUsage({ promptTokenCount: 10, cachedContentTokenCount: 99 })).toMatchObject({
    inputTokens: 0,
    cacheReadTokens: 10,
  });
});

test.each([
  undefined,
  null,
  'many',
  {},
  { trafficType: 'ON_DEMAND' },
  { promptTokenCount: 0, totalTokenCount: 9 },
  { promptTokenCount: -1 },
  { promptTokenCount: 1.5 },
  { promptTokenCount: '10' },
  { promptTokenCount: 10, candidatesTokenCount: 2e9 },
  { promptTokenCount: 10, thoughtsTokenCount: 'many' },
])('numbers that cannot be trusted are none: %j', (raw) => {
  expect(readUsage(raw)).toBeUndefined();
});
