import { describe, expect, test } from 'bun:test';
import { RecordingSink, readEvents } from '../../../../tests/support/recording-sink.ts';
import { eventBytesMax } from '../../../core/bounds.ts';
import { GeminiStreamReader, readFullReply, readUsage } from './reader.ts';

const read = (...chunks: readonly unknown[]) =>
  readEvents((sink) => new GeminiStreamReader(sink), chunks);

const chunkOf = (parts: readonly object[], finishReason?: string) => ({
  candidates: [{ content: { role: 'model', parts }, finishReason, index: 0 }],
});
const endChunk = (finishReason: string, extraFields: object = {}) => ({
  candidates: [{ content: {}, finishReason, ...extraFields }],
});

describe('GeminiStreamReader finish reasons', () => {
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
  ] as const)('%s becomes %s', (geminiReason, reason) => {
    const { sink, reader, failure } = read(endChunk(geminiReason));
    expect(failure).toBeUndefined();
    expect(reader.finished).toBe(true);
    expect(sink.finishReason).toBe(reason);
  });

  test('STOP after a call becomes tool_calls, but MAX_TOKENS stays length', () => {
    const call = { functionCall: { name: 'now', args: {} } };
    expect(read(chunkOf([call]), endChunk('STOP')).sink.finishReason).toBe('tool_calls');
    expect(read(chunkOf([call], 'STOP')).sink.finishReason).toBe('tool_calls');
    expect(read(chunkOf([call]), endChunk('MAX_TOKENS')).sink.finishReason).toBe('length');
  });

  test.each(['MALFORMED_FUNCTION_CALL', 'UNEXPECTED_TOOL_CALL', 'TOO_MANY_TOOL_CALLS'])(
    '%s is a failure that another attempt may avoid',
    (reason) => {
      const { sink, reader, failure } = read(endChunk(reason, { finishMessage: 'print(now(' }));
      expect(failure).toMatchObject({ kind: 'server', status: null });
      expect(failure?.message).toContain(`${reason}. print(now(`);
      expect(reader.finished).toBe(false);
      expect(sink.finishReason).toBeNull();
    },
  );

  test('a blocked prompt becomes content_filter', () => {
    const { sink, reader } = read({ promptFeedback: { blockReason: 'SAFETY' } });
    expect(reader.finished).toBe(true);
    expect(sink.finishReason).toBe('content_filter');
    expect(read({ promptFeedback: { safetyRatings: [] } }).reader.finished).toBe(false);
  });

  test('usage and a truncated event may follow the finish reason', () => {
    const late = { ...chunkOf([{ text: '' }], 'STOP'), usageMetadata: { promptTokenCount: 3 } };
    const { sink, failure } = read(endChunk('STOP'), late, 'half a {');
    expect(failure).toBeUndefined();
    expect(sink.order).toEqual(['finish']);
    expect(sink.lastUsage?.inputTokens).toBe(3);
  });

  test('usage after [DONE] is ignored', () => {
    const usage = (promptTokenCount: number) => ({ usageMetadata: { promptTokenCount } });
    const { sink, reader } = read({ ...endChunk('STOP'), ...usage(3) }, '[DONE]', usage(500));
    expect([reader.finished, sink.lastUsage?.inputTokens]).toEqual([true, 3]);
  });

  test('only the last STOP counts if every chunk has one', () => {
    const { sink, reader } = read(...['1', ' 2', ' 3'].map((text) => chunkOf([{ text }], 'STOP')));
    expect([sink.fullText, sink.finishReason, reader.finished]).toEqual(['1 2 3', 'stop', true]);
    const calls = ['f', 'g'].map((name) => chunkOf([{ functionCall: { name, args: {} } }], 'STOP'));
    const called = read(...calls, endChunk('STOP')).sink;
    expect(called.calls.map(({ name }) => name)).toEqual(['f', 'g']);
    expect(called.finishReason).toBe('tool_calls');
    expect(read(chunkOf([{ text: '1' }], 'STOP'), endChunk('SAFETY')).sink).toMatchObject({
      fullText: '1',
      finishReason: 'content_filter',
    });
  });

  test('the answer is not finished without a finish reason', () => {
    const unspecified = chunkOf([{ text: 'a' }], 'FINISH_REASON_UNSPECIFIED');
    expect(read(chunkOf([{ text: 'a' }]), unspecified, {}).reader.finished).toBe(false);
  });
});

describe('Gemini failures', () => {
  const error = { code: 503, message: 'The model is overloaded.', status: 'UNAVAILABLE' };

  test.each([[{ error }], [[{ error }]]])('are read from the stream chunk %j', (chunk) => {
    const { failure } = read(chunkOf([{ text: 'a' }]), chunk);
    expect(failure).toEqual({
      kind: 'overloaded',
      status: 503,
      message: 'The model is overloaded.',
      retryAfterSeconds: null,
    });
  });

  test.each(['', 'null', '3', '"a"', '[]', '{"candidates":'])(
    'are malformed for the stream chunk %p',
    (chunk) => {
      expect(read(chunk).failure?.kind).toBe('malformed');
    },
  );

  test.each([
    [{ error }, 'overloaded'],
    [[{ error }], 'overloaded'],
    [{}, 'malformed'],
    [chunkOf([{ text: 'a' }]), 'malformed'],
    [[], 'malformed'],
  ] as const)('are read from the reply %j', (body, kind) => {
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
  ])('are not caused by values of unexpected types: %j', (chunk) => {
    const { sink, failure } = read(chunk);
    expect(failure).toBeUndefined();
    expect(sink.order).toEqual([]);
  });
});

describe('GeminiStreamReader content', () => {
  test('emits reasoning, text, and images in order', () => {
    const { sink } = read(
      chunkOf([{ text: 'Hm. ', thought: true }]),
      chunkOf([{ text: 'So.', thought: true }, { text: 'Here:' }]),
      chunkOf([{ inlineData: { mimeType: 'image/png', data: 'AAAA' }, thoughtSignature: 'huge' }]),
      chunkOf([{ inlineData: { mimeType: 'audio/wav', data: 'AAAA' } }, { text: '' }], 'STOP'),
    );
    expect(sink.reasoningText).toBe('Hm. So.');
    expect(sink.fullText).toBe('Here:');
    expect(sink.images).toEqual([{ mediaType: 'image/png', base64: 'AAAA' }]);
    expect(sink.order).toEqual(['reasoning', 'text', 'image', 'finish']);
    expect(sink.signatures).toEqual([]);
  });

  test("emits a text's signature after reasoning before the text", () => {
    const { sink } = read(
      chunkOf([
        { text: 'Hm.', thought: true },
        { text: 'Yes', thoughtSignature: 'S1' },
      ]),
      chunkOf([{ text: '.' }], 'STOP'),
    );
    expect(sink.order).toEqual(['reasoning', 'signature', 'text', 'finish']);
    expect(sink.signatures).toEqual(['gemini:S1']);
  });

  test('emits the signature of the reasoning', () => {
    const { sink } = read(
      chunkOf([{ text: 'Hm.', thought: true, thoughtSignature: 'S1' }], 'STOP'),
    );
    expect(sink.order).toEqual(['reasoning', 'signature', 'finish']);
  });

  test("emits a text's signature after the full text, before the next call", () => {
    const { sink } = read(
      chunkOf([{ text: 'Let', thoughtSignature: 'S1' }]),
      chunkOf([{ text: ' me see.' }]),
      chunkOf([{ functionCall: { name: 'now', args: {} }, thoughtSignature: 'S2' }], 'STOP'),
    );
    expect(sink.order).toEqual(['text', 'signature', 'call', 'arguments', 'finish']);
    expect(sink.signatures).toEqual(['gemini:S1', 'gemini:S2']);
    expect(sink.calls[0]?.signature).toBe('gemini:S2');
  });

  test.each([
    ['without text', { thoughtSignature: 'S1' }],
    ['with an empty text', { text: '', thoughtSignature: 'S1' }],
  ])('emits a signature %s before, with, and after the finish reason', (_, signaturePart) => {
    const streams = [
      [chunkOf([{ text: 'Yes' }]), chunkOf([signaturePart]), endChunk('MAX_TOKENS')],
      [chunkOf([{ text: 'Yes' }]), chunkOf([signaturePart], 'MAX_TOKENS')],
      [chunkOf([{ text: 'Yes' }], 'MAX_TOKENS'), chunkOf([signaturePart], 'STOP')],
      [chunkOf([{ text: 'Yes' }], 'MAX_TOKENS'), chunkOf([signaturePart])],
    ];
    for (const chunks of streams) {
      const { sink, reader } = read(...chunks);
      expect(sink).toMatchObject({ fullText: 'Yes', finishReason: 'length' });
      expect([sink.signatures, reader.finished]).toEqual([['gemini:S1'], true]);
    }
  });

  test('emits a signature without text after reasoning before the call', () => {
    const call = { functionCall: { name: 'now', args: {} } };
    const reasoning = { text: 'Hm.', thought: true };
    const { sink } = read(
      chunkOf([reasoning]),
      chunkOf([{ thoughtSignature: 'S1' }]),
      chunkOf([call], 'STOP'),
    );
    expect(sink.order).toEqual(['reasoning', 'signature', 'call', 'arguments', 'finish']);
    expect(sink.calls[0]?.signature).toBe('gemini:S1');
  });

  test('reads a JSON list of chunks sent instead of events', () => {
    const usageMetadata = (candidatesTokenCount: number) => ({
      usageMetadata: { promptTokenCount: 4, candidatesTokenCount },
    });
    const chunks = [
      { ...chunkOf([{ text: 'One' }], 'STOP'), ...usageMetadata(1) },
      { ...chunkOf([{ text: ' two' }], 'STOP'), ...usageMetadata(3) },
    ];
    const sink = new RecordingSink();
    expect(readFullReply(JSON.stringify(chunks), sink)).toBeUndefined();
    expect([sink.fullText, sink.finishReason]).toEqual(['One two', 'stop']);
    // The counts of a chunk include all previous chunks.
    expect(sink.lastUsage).toMatchObject({ inputTokens: 4, outputTokens: 3 });
    expect(read(chunks).sink.fullText).toBe('One two');
    const cut = [chunkOf([{ text: 'One' }]), chunkOf([{ text: ' two' }])];
    expect(readFullReply(JSON.stringify(cut), new RecordingSink())?.kind).toBe('malformed');
    expect(readFullReply(JSON.stringify(chunks).slice(0, -1), new RecordingSink())?.kind).toBe(
      'malformed',
    );
  });

  test('emits the sources of a text', () => {
    const web = { uri: 'https://a.example/', title: 'a.example' };
    const { sink } = read(
      chunkOf([{ text: 'So it is.' }]),
      endChunk('STOP', {
        groundingMetadata: { groundingChunks: [{ web }, { web: { uri: 'b:c' } }] },
      }),
    );
    expect(sink.citations).toEqual([
      { url: 'https://a.example/', title: 'a.example', quote: '', range: null },
      { url: 'b:c', title: '', quote: '', range: null },
    ]);
  });

  test.each([undefined, 'STOP'])(
    'emits sources after the end, with the finish reason %p',
    (reason) => {
      const groundingMetadata = { groundingChunks: [{ web: { uri: 'https://a.example/' } }] };
      const { sink } = read(chunkOf([{ text: 'So it is.' }], 'MAX_TOKENS'), {
        candidates: [
          { content: { parts: [{ text: '' }] }, finishReason: reason, groundingMetadata },
        ],
      });
      expect(sink.citations.map(({ url }) => url)).toEqual(['https://a.example/']);
      expect([sink.fullText, sink.finishReason]).toEqual(['So it is.', 'length']);
    },
  );
});

describe('GeminiStreamReader calls', () => {
  test("have Gemini's ID or a generated ID", () => {
    const { sink } = read(
      chunkOf([
        { functionCall: { id: 'abc', name: 'now', args: {} } },
        { functionCall: { name: 'now' } },
      ]),
      endChunk('STOP'),
    );
    expect(sink.calls.map(({ name, arguments: json }) => [name, json])).toEqual([
      ['now', '{}'],
      ['now', '{}'],
    ]);
    expect(sink.calls[0]?.id).toBe('abc');
    expect(sink.calls[1]?.id).toMatch(/^call_[0-9a-z]{24}$/);
  });

  test('keep long numbers exact', () => {
    const call = '{"functionCall":{"name":"a","args":{"id":12345678901234567890}}}';
    const { sink } = read(`{"candidates":[{"content":{"parts":[${call}]}}]}`);
    expect(sink.calls[0]?.arguments).toBe('{"id":12345678901234567890}');
  });

  test('in pieces are complete when the next call starts or the answer ends', () => {
    const piece = (jsonPath: string, stringValue: string) => ({
      functionCall: {
        partialArgs: [{ jsonPath, stringValue, willContinue: true }],
        willContinue: true,
      },
    });
    const { sink } = read(
      chunkOf([{ functionCall: { name: 'a', willContinue: true } }]),
      chunkOf([piece('$.x', 'one ')]),
      chunkOf([piece('$.x', 'two')]),
      chunkOf([{ functionCall: { name: 'b', willContinue: true } }, piece('$.y', 'three')]),
      endChunk('STOP'),
    );
    expect(sink.calls.map(({ arguments: json }) => json)).toEqual([
      '{"x":"one two"}',
      '{"y":"three"}',
    ]);
  });

  test('in pieces end at a piece without willContinue', () => {
    const piece = { jsonPath: '$.x', numberValue: 1 };
    const { sink } = read(
      chunkOf([{ functionCall: { name: 'a', willContinue: true } }]),
      chunkOf([{ functionCall: { partialArgs: [piece] } }, { text: 'So.' }]),
    );
    expect(sink.order).toEqual(['call', 'arguments', 'text']);
    expect(sink.calls[0]?.arguments).toBe('{"x":1}');
  });

  test('in pieces fail when they exceed the event limit', () => {
    const stringValue = 'a'.repeat(eventBytesMax / 4);
    const chunk = chunkOf([
      { functionCall: { partialArgs: [{ jsonPath: '$.x', stringValue }], willContinue: true } },
    ]);
    const open = chunkOf([{ functionCall: { name: 'a', willContinue: true } }]);
    expect(read(open, chunk, chunk, chunk).failure).toBeUndefined();
    expect(read(open, chunk, chunk, chunk, chunk).failure?.kind).toBe('malformed');
  });
});

test('readUsage converts all token counts', () => {
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
    includesToolResults: true,
  });
});

describe('readUsage audio tokens', () => {
  const of = (modality: string, tokenCount: unknown) => ({ modality, tokenCount });
  const usageWith = (promptTokensDetails: unknown, cacheTokensDetails?: unknown) =>
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
    includesToolResults: true as const,
  });

  test('are counted separately from text and cached tokens', () => {
    const prompt = [of('TEXT', 30), of('AUDIO', 70)];
    expect(usageWith(prompt, [of('TEXT', 10), of('AUDIO', 50)])).toEqual(split(27, 20));
    expect(usageWith(prompt)).toEqual(split(7, 40));
    expect(usageWith([of('AUDIO', 10), of('VIDEO', 80), of('AUDIO', 10)])).toEqual(split(27, 20));
  });

  test.each([
    [[of('AUDIO', 101)], undefined],
    [[of('AUDIO', -1)], undefined],
    [[of('AUDIO', '70')], undefined],
    [[of('AUDIO', 70)], [of('AUDIO', 61)]],
    [[of('AUDIO', 40)], [of('AUDIO', 41)]],
    ['AUDIO', { modality: 'AUDIO' }],
    [[null, of('TEXT', 100)], [7]],
  ])('are ignored for implausible counts: %j, cached %j', (prompt, cached) => {
    expect(usageWith(prompt, cached)).toEqual(split(47));
  });
});

test('readUsage counts output that only the total includes, up to 4,096 tokens', () => {
  const outputOf = (totalTokenCount: number) =>
    readUsage({ promptTokenCount: 10, candidatesTokenCount: 3, totalTokenCount })?.outputTokens;
  expect([outputOf(20), outputOf(4_109), outputOf(4_110)]).toEqual([10, 4_099, 3]);
});

test('GeminiStreamReader keeps the prompt count if the last report lacks it', () => {
  const sink = new RecordingSink();
  const reader = new GeminiStreamReader(sink);
  const report = (usageMetadata: object) =>
    reader.push({ event: null, data: JSON.stringify({ usageMetadata }) });
  report({ promptTokenCount: 10, cachedContentTokenCount: 4, candidatesTokenCount: 1 });
  report({ candidatesTokenCount: 7 });
  const counts = { inputTokens: 6, cacheReadTokens: 4, outputTokens: 7 };
  expect(sink.lastUsage).toMatchObject(counts);
  report({ promptTokenCount: 0, candidatesTokenCount: 0 });
  expect(sink.lastUsage).toMatchObject(counts);
});

test('readUsage limits cached tokens to the number of prompt tokens', () => {
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
  { totalTokenCount: 9 },
  { promptTokenCount: -1 },
  { promptTokenCount: 1.5 },
  { promptTokenCount: '10' },
  { promptTokenCount: 10, candidatesTokenCount: 2e9 },
  { promptTokenCount: 10, thoughtsTokenCount: 'many' },
])('readUsage returns undefined for %j', (raw) => {
  expect(readUsage(raw)).toBeUndefined();
});
