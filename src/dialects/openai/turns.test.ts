import { expect, test } from 'bun:test';
import { readTurns } from './turns.ts';

const text = (said: string) => ({ type: 'text' as const, text: said });
const read = (said: string) => ({ kind: 'text' as const, text: said });

test('instructions in parts are as many texts', () => {
  const content = [text('Be brief.'), text('Be kind.')];
  expect(readTurns([{ role: 'developer', content }])).toEqual([
    { role: 'system', parts: [read('Be brief.'), read('Be kind.')] },
  ]);
});

test('an empty user message is a turn, unless it follows tool results', () => {
  const nothing = { role: 'user' as const, content: '' };
  expect(readTurns([nothing])).toEqual([{ role: 'user', parts: [] }]);
  const result = { role: 'tool' as const, tool_call_id: 'a', content: 'x' };
  expect(readTurns([result, nothing])).toEqual(readTurns([result]));
});

test('what the assistant refused is heard from a part and from the field', () => {
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

test.each(['reasoning', 'reasoning_content'])('a thought comes back as plain %s', (field) => {
  const [turn] = readTurns([{ role: 'assistant', content: 'Four.', [field]: 'Two and two.' }]);
  expect(turn?.parts).toEqual([{ kind: 'reasoning', text: 'Two and two.' }, read('Four.')]);
});

test('a result in parts has its words and its pictures', () => {
  const url = 'data:image/png;base64,AAAA';
  const content = [text('The chart:'), { type: 'image_url' as const, image_url: { url } }];
  const parts = [read('The chart:'), { kind: 'image' as const, url }];
  expect(readTurns([{ role: 'tool', tool_call_id: 'a', content }])).toEqual([
    { role: 'user', parts: [{ kind: 'tool_result', callId: 'a', parts, isError: false }] },
  ]);
});

test('a file is known by its bytes, else by its id', () => {
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

test('a PDF that is shown as a picture is a document', () => {
  const shown = (url: string) => ({ type: 'image_url' as const, image_url: { url } });
  const pdf = 'data:application/pdf;base64,AAAA';
  const content = [shown(pdf), shown('data:image/png;base64,AAAA'), shown('https://a.example/b')];
  expect(readTurns([{ role: 'user', content }])[0]?.parts).toMatchObject([
    { kind: 'document', source: { url: pdf } },
    { kind: 'image', url: 'data:image/png;base64,AAAA' },
    { kind: 'image', url: 'https://a.example/b' },
  ]);
});

test('thoughts that nobody numbered stay apart', () => {
  const reasoning_details = [
    { type: 'reasoning.text', text: 'One.', signature: 'a' },
    { type: 'reasoning.encrypted', data: 'b' },
  ];
  const said = { role: 'assistant' as const, content: 'So.', reasoning_details };
  expect(readTurns([said])[0]?.parts).toEqual([
    { kind: 'reasoning', text: 'One.', signature: 'a' },
    { kind: 'reasoning', text: '', redacted: 'b' },
    read('So.'),
  ]);
});

test('a mark on a message stands on the last part that can have one', () => {
  const cache_control = { type: 'ephemeral' };
  const cacheControl = cache_control;
  const sound = { type: 'input_audio' as const, input_audio: { data: 'AAAA', format: 'wav' } };
  const words = { type: 'text' as const, text: 'b' };
  const own = { ...words, cache_control: { type: 'ephemeral', ttl: '1h' } };
  const marked = [
    { role: 'system' as const, content: 'a', cache_control },
    { role: 'user' as const, content: [words, words, sound], cache_control },
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
