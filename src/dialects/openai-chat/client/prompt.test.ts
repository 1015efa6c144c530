import { describe, expect, test } from 'bun:test';
import { prefixSignature } from '../../normalize/signature.ts';
import { writeBody } from '../upstream/chat-body.ts';
import { readPrompt, readTurns } from './prompt.ts';
import type { ChatMessage } from './schema.ts';

const [first, last] = ['A', 'B'].map((signature) => prefixSignature('gemini', signature));

function signedCall(signature: string) {
  return {
    ...{ id: 'a', type: 'function', function: { name: 'look', arguments: '{}' } },
    extra_content: { google: { thought_signature: signature } },
  };
}

/** Reads a Gemini answer with 2 signatures: one on the call and one at the end. */
function partsOf(fields: object) {
  const message = {
    role: 'assistant',
    content: null,
    tool_calls: [signedCall('A')],
    reasoning_details: [
      { type: 'reasoning.text', index: 0, signature: first },
      { type: 'reasoning.text', index: 1, signature: last },
    ],
    ...fields,
  } as ChatMessage;
  return readPrompt({ body: { model: 'a/b', messages: [message] }, source: null }).turns[0]?.parts;
}

const call = { kind: 'tool_call', id: 'a', name: 'look' };
const reasoning = (signature: string | undefined) => ({ kind: 'reasoning', text: '', signature });

test.each<[string | string[], string[]]>([
  ['', []],
  [['', 'END'], ['END']],
  ['END', ['END']],
])('readPrompt keeps the non-empty stop sequences of %j', (stop, expected) => {
  const body = { model: 'a/b', messages: [{ role: 'user' as const, content: 'Hi' }], stop };
  expect(readPrompt({ body, source: null }).stop).toEqual(expected);
});

test('readPrompt reports generated images as dropped', () => {
  const image_url = { url: 'data:image/png;base64,aGk=' };
  const unsupportedIn = (images: object[]) => {
    const message = { role: 'assistant', content: 'Here.', images } as ChatMessage;
    return readPrompt({ body: { model: 'a/b', messages: [message] }, source: null }).unsupported;
  };
  expect(unsupportedIn([{ type: 'image_url', image_url }])).toEqual(['messages.images']);
  expect(unsupportedIn([])).toEqual([]);
});

describe('readPrompt', () => {
  test('keeps the positions of signatures before and after a call', () => {
    expect(partsOf({})).toMatchObject([reasoning(first), call, reasoning(last)]);
  });

  test('puts a signature before the text it belongs to', () => {
    const textPart = { kind: 'text', text: 'Hm.' };
    const parts = partsOf({ content: 'Hm.' });
    expect(parts).toMatchObject([reasoning(last), textPart, reasoning(first), call]);
  });

  test('reads a reasoning block once if several calls have its signature', () => {
    const detail = { type: 'reasoning.text', index: 0, text: 'Hm.', signature: first };
    const tool_calls = [signedCall('A'), signedCall('A'), signedCall('A')];
    expect(partsOf({ tool_calls, reasoning_details: [detail] })).toMatchObject([
      ...[{ kind: 'reasoning', text: 'Hm.', signature: first }, call],
      ...[reasoning(first), call],
      ...[reasoning(first), call],
    ]);
  });

  // An empty signature would keep the writer from reporting that the real one is lost.
  test('ignores an empty signature', () => {
    const parts = partsOf({ tool_calls: [signedCall('')], reasoning_details: [] });
    expect(parts).toMatchObject([call]);
  });
});

test('readPrompt keeps the description of a schema', () => {
  const json_schema = { name: 'n', description: 'A city.', schema: { type: 'object' } };
  const messages: ChatMessage[] = [{ role: 'user', content: 'Hi' }];
  const format = { type: 'json_schema' as const, json_schema };
  const body = { model: 'a/b', messages, response_format: format };
  const prompt = readPrompt({ body, source: null });
  expect(prompt.json).toMatchObject(json_schema);
  expect(writeBody(prompt).body.response_format).toEqual(format);
});

test("readPrompt reads a top-level cache breakpoint as the prompt's own", () => {
  const mark = { type: 'ephemeral', ttl: '1h' };
  const messages: ChatMessage[] = [{ role: 'user', content: 'Hi' }];
  const body = { model: 'a/b', messages, cache_control: mark, top_a: 1 };
  const { cacheControl, unsupported } = readPrompt({ body, source: null });
  expect([cacheControl, unsupported]).toEqual([mark, ['top_a']]);
});

test("readPrompt reads a tool's cache breakpoint inside or next to its function", () => {
  const named = { name: 'look', parameters: {} };
  const [inner, outer] = [{ type: 'ephemeral' }, { type: 'ephemeral', ttl: '1h' }];
  const messages: ChatMessage[] = [{ role: 'user', content: 'Hi' }];
  const markOf = (fields: object, extraFields: object = {}) => {
    const tool = { type: 'function' as const, function: { ...named, ...fields }, ...extraFields };
    const body = { model: 'a/b', messages, tools: [tool] };
    return readPrompt({ body, source: null }).tools[0]?.cacheControl;
  };
  expect(markOf({ cache_control: inner })).toEqual(inner);
  expect(markOf({}, { cache_control: outer })).toEqual(outer);
  expect(markOf({ cache_control: inner }, { cache_control: outer })).toEqual(outer);
});

test.each([
  [
    { type: 'enabled', budget_tokens: 2000 },
    { effort: null, budgetTokens: 2000, isAdaptive: false, visible: true },
  ],
  [
    { type: 'enabled', budget_tokens: -1 },
    { effort: null, budgetTokens: null, isAdaptive: false, visible: true },
  ],
  [{ type: 'adaptive' }, { effort: null, budgetTokens: null, isAdaptive: true, visible: true }],
  [{ type: 'disabled' }, { effort: 'none' as const, budgetTokens: null, visible: true }],
])("readPrompt reads Anthropic's thinking as reasoning options: %j", (thinking, options) => {
  const body = { model: 'a/b', messages: [{ role: 'user' as const, content: 'Hi' }], thinking };
  const { reasoning, unsupported } = readPrompt({ body, source: null });
  expect([reasoning, unsupported]).toEqual([options, []]);
  const plain = { ...body, reasoning_effort: 'low' as const };
  expect(readPrompt({ body: plain, source: null }).reasoning?.effort).toBe('low');
});

test('readPrompt reports an unreadable thinking field as unknown', () => {
  for (const thinking of ['enabled', 3, { type: 'deep' }, {}]) {
    const body = { model: 'a/b', messages: [{ role: 'user' as const, content: 'Hi' }], thinking };
    const { reasoning, unsupported } = readPrompt({ body, source: null });
    expect([reasoning, unsupported]).toEqual([null, ['thinking']]);
  }
});

test('readPrompt reports unknown reasoning fields', () => {
  const messages: ChatMessage[] = [{ role: 'user', content: 'Hi' }];
  const reasoning = { effort: 'high' as const, mode: 'pro', context: 'auto' };
  const prompt = readPrompt({ body: { model: 'a/b', messages, reasoning }, source: null });
  expect([prompt.reasoning?.effort, prompt.unsupported]).toEqual(['high', ['reasoning.mode']]);
});

test("readPrompt reports the name in a message but not a tool's name", () => {
  const unsupportedIn = (message: object) => {
    const messages = [{ role: 'user', content: 'Hi' }, message] as ChatMessage[];
    return readPrompt({ body: { model: 'a/b', messages }, source: null }).unsupported;
  };
  for (const role of ['user', 'assistant', 'system', 'developer']) {
    expect(unsupportedIn({ role, content: 'Hi', name: 'ann' })).toEqual(['messages.name']);
    expect(unsupportedIn({ role, content: 'Hi', name: null })).toEqual([]);
  }
  expect(unsupportedIn({ role: 'tool', tool_call_id: 'a', content: 'b', name: 'look' })).toEqual(
    [],
  );
});

test('readPrompt sets no effort if reasoning is enabled without a level', () => {
  const messages: ChatMessage[] = [{ role: 'user', content: 'Hi' }];
  const options = (enabled: boolean) =>
    readPrompt({ body: { model: 'a/b', messages, reasoning: { enabled } }, source: null })
      .reasoning;
  expect(options(true)).toEqual({
    effort: null,
    budgetTokens: null,
    isAdaptive: true,
    visible: true,
  });
  expect(options(false)).toEqual({ effort: 'none', budgetTokens: null, visible: true });
});

const text = (content: string) => ({ type: 'text' as const, text: content });
const read = (content: string) => ({ kind: 'text' as const, text: content });

test('readTurns reads each part of the instructions as a separate text', () => {
  const content = [text('Be brief.'), text('Be kind.')];
  expect(readTurns([{ role: 'developer', content }])).toEqual([
    { role: 'system', parts: [read('Be brief.'), read('Be kind.')] },
  ]);
});

test('readTurns keeps an empty user message unless it follows tool results', () => {
  const nothing = { role: 'user' as const, content: '' };
  expect(readTurns([nothing])).toEqual([{ role: 'user', parts: [] }]);
  const result = { role: 'tool' as const, tool_call_id: 'a', content: 'x' };
  expect(readTurns([result, nothing])).toEqual(readTurns([result]));
});

test('readTurns reads refusals from parts and from the field', () => {
  const refused = { type: 'refusal' as const, refusal: 'Not that.' };
  const [turn] = readTurns([
    { role: 'assistant', content: [text('Well.'), refused], refusal: 'Nor this.' },
  ]);
  expect(turn?.parts).toEqual([
    read('Well.'),
    { kind: 'refusal', text: 'Not that.' },
    { kind: 'refusal', text: 'Nor this.' },
  ]);
});

test.each(['reasoning', 'reasoning_content'])(
  'readTurns reads reasoning from plain %s',
  (field) => {
    const [turn] = readTurns([{ role: 'assistant', content: 'Four.', [field]: 'Two and two.' }]);
    expect(turn?.parts).toEqual([{ kind: 'reasoning', text: 'Two and two.' }, read('Four.')]);
  },
);

test('readTurns reads the text and images of a tool result', () => {
  const url = 'data:image/png;base64,AAAA';
  const content = [text('The chart:'), { type: 'image_url' as const, image_url: { url } }];
  const parts = [read('The chart:'), { kind: 'image' as const, url }];
  expect(readTurns([{ role: 'tool', tool_call_id: 'a', content }])).toEqual([
    { role: 'user', parts: [{ kind: 'tool_result', callId: 'a', parts, isError: false }] },
  ]);
});

test('readTurns reads the bytes of a file, or its id if there are no bytes', () => {
  const bytes = 'data:application/pdf;base64,AAAA';
  const [turn] = readTurns([
    {
      role: 'user',
      content: [
        { type: 'file', file: { file_data: bytes, filename: 'a.pdf' } },
        { type: 'file', file: { file_id: 'file-1' } },
        { type: 'file', file: { file_data: 'AAAA' } },
        { type: 'file', file: { file_data: 'https://a.example/b.pdf' } },
      ],
    },
  ]);
  expect(turn?.parts).toMatchObject([
    { kind: 'document', source: { url: bytes }, name: 'a.pdf' },
    { kind: 'document', source: { fileId: 'file-1' } },
    { kind: 'document', source: { url: bytes } },
    { kind: 'document', source: { url: 'https://a.example/b.pdf' } },
  ]);
});

test('readTurns reads a PDF sent as an image as a document', () => {
  const shown = (url: string) => ({ type: 'image_url' as const, image_url: { url } });
  const pdf = 'data:application/pdf;base64,AAAA';
  const content = [shown(pdf), shown('data:image/png;base64,AAAA'), shown('https://a.example/b')];
  expect(readTurns([{ role: 'user', content }])[0]?.parts).toMatchObject([
    { kind: 'document', source: { url: pdf } },
    { kind: 'image', url: 'data:image/png;base64,AAAA' },
    { kind: 'image', url: 'https://a.example/b' },
  ]);
});

test('readTurns keeps reasoning blocks without an index separate', () => {
  const reasoning_details = [
    { type: 'reasoning.text', text: 'One.', signature: 'a' },
    { type: 'reasoning.encrypted', data: 'b' },
  ];
  const answer = { role: 'assistant' as const, content: 'So.', reasoning_details };
  expect(readTurns([answer])[0]?.parts).toEqual([
    { kind: 'reasoning', text: 'One.', signature: 'a' },
    { kind: 'reasoning', text: '', redacted: 'b' },
    read('So.'),
  ]);
});

test("readTurns moves a message's cache breakpoint to the last part that can have one", () => {
  const cache_control = { type: 'ephemeral' };
  const cacheControl = cache_control;
  const sound = { type: 'input_audio' as const, input_audio: { data: 'AAAA', format: 'wav' } };
  const content = { type: 'text' as const, text: 'b' };
  const own = { ...content, cache_control: { type: 'ephemeral', ttl: '1h' } };
  const marked = [
    { role: 'system' as const, content: 'a', cache_control },
    { role: 'user' as const, content: [content, content, sound], cache_control },
    { role: 'user' as const, content: [own], cache_control },
    { role: 'assistant' as const, content: 'c', refusal: 'No.', cache_control },
    { role: 'user' as const, content: '', cache_control },
    { role: 'assistant' as const, content: '', reasoning_content: 'Hm.', cache_control },
  ];
  expect(readTurns(marked).map(({ parts }) => parts as readonly object[])).toEqual([
    [{ ...read('a'), cacheControl }],
    [read('b'), { ...read('b'), cacheControl }, { kind: 'audio', data: 'AAAA', format: 'wav' }],
    [{ ...read('b'), cacheControl: { type: 'ephemeral', ttl: '1h' } }],
    [
      { ...read('c'), cacheControl },
      { kind: 'refusal', text: 'No.' },
    ],
    [],
    [{ kind: 'reasoning', text: 'Hm.' }],
  ]);
});
