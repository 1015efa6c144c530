import { describe, expect, test } from 'bun:test';
import { makeTarget, userTurn } from '../../../../tests/support/prompts.ts';
import type { AssistantPart, ToolResultPart, Turn, UserPart } from '../../../core/prompt.ts';
import { writeContents } from './contents.ts';

const text = (content: string) => ({ kind: 'text' as const, text: content });
const call = (id: string, name = 'weather', json = '{}'): AssistantPart => ({
  kind: 'tool_call',
  id,
  name,
  arguments: json,
});
const result = (callId: string, parts: ToolResultPart['parts'], isError = false): UserPart => ({
  kind: 'tool_result',
  callId,
  parts,
  isError,
});
const reasoning = (content: string, signature?: string): AssistantPart => ({
  kind: 'reasoning',
  text: content,
  signature,
});
const model = (...parts: AssistantPart[]): Turn => ({ role: 'assistant', parts });
const user = (...parts: UserPart[]): Turn => ({ role: 'user', parts });

const contents = (turns: readonly Turn[], target = makeTarget()): unknown =>
  JSON.parse(JSON.stringify(writeContents(turns, target)));
const partsOf = (turn: Turn, target = makeTarget()): unknown => {
  const [, second] = contents([userTurn('?'), turn], target) as { parts: unknown }[];
  return second?.parts;
};
const userContent = { role: 'user', parts: [{ text: '?' }] };
const placeholderSignature = 'skip_thought_signature_validator';
const functionCall = { name: 'weather', args: {} };
const [callA, callB] = [
  { ...functionCall, id: 'a' },
  { ...functionCall, id: 'b' },
];

describe('writeContents writes turns that', () => {
  // Quadratic time would exceed the test's time limit.
  test('are merged in linear time', () => {
    const talk = [
      ...Array.from({ length: 20_000 }, () => userTurn('Hi')),
      ...Array.from({ length: 20_000 }, () => model(text('Hm.'))),
      model(...Array.from({ length: 80_000 }, (_, index) => call(String(index)))),
    ];
    const contents = writeContents(talk, makeTarget());
    expect(contents.map(({ parts }) => parts.length)).toEqual([20_000, 100_000]);
  });

  test('alternate, with consecutive turns merged and empty ones dropped', () => {
    expect(
      contents([
        userTurn('a'),
        userTurn('b'),
        model(text('')),
        userTurn('c'),
        model(text('d')),
        model(text('e')),
      ]),
    ).toEqual([
      { role: 'user', parts: [{ text: 'a' }, { text: 'b' }, { text: 'c' }] },
      { role: 'model', parts: [{ text: 'd' }, { text: 'e' }] },
    ]);
  });

  test('start with the user', () => {
    expect(contents([model(text('Hello!')), userTurn('?')])).toEqual([
      { role: 'user', parts: [{ text: ' ' }] },
      { role: 'model', parts: [{ text: 'Hello!' }] },
      userContent,
    ]);
  });

  test('contain an earlier refusal as text', () => {
    expect(partsOf(model({ kind: 'refusal', text: 'No.' }))).toEqual([{ text: 'No.' }]);
  });
});

describe('writeContents files', () => {
  const sent = (part: UserPart) => contents([user(part)]) as [{ parts: unknown }];

  test.each<[string, UserPart, unknown]>([
    [
      'an inline image',
      { kind: 'image', url: 'data:image/png;base64,AAAA', detail: 'high' },
      { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
    ],
    [
      'an image by URL',
      { kind: 'image', url: 'https://a.example/b.png' },
      { fileData: { mimeType: 'image/png', fileUri: 'https://a.example/b.png' } },
    ],
    [
      'a document by URL',
      { kind: 'document', source: { url: 'https://a.example/b.PDF?c=d.png' } },
      { fileData: { mimeType: 'application/pdf', fileUri: 'https://a.example/b.PDF?c=d.png' } },
    ],
    [
      'a document by a URL without a file name',
      { kind: 'document', source: { url: 'https://a.pdf/b' } },
      { fileData: { fileUri: 'https://a.pdf/b' } },
    ],
    [
      'audio',
      { kind: 'audio', data: 'AAAA', format: 'mp3' },
      { inlineData: { mimeType: 'audio/mp3', data: 'AAAA' } },
    ],
    [
      'an inline document',
      { kind: 'document', source: { url: 'data:application/pdf;base64,AAAA' }, name: 'a.pdf' },
      { inlineData: { mimeType: 'application/pdf', data: 'AAAA' } },
    ],
    [
      'a text document',
      { kind: 'document', source: { text: 'Once upon a time' } },
      { text: 'Once upon a time' },
    ],
    [
      'a text document with a title',
      { kind: 'document', source: { text: 'Once upon a time' }, name: 'A tale' },
      { text: 'A tale\n\nOnce upon a time' },
    ],
    [
      'a document by file ID',
      { kind: 'document', source: { fileId: 'files/abc' } },
      { fileData: { fileUri: 'files/abc' } },
    ],
  ])('%s', (_, part, written) => {
    expect(sent(part)[0].parts).toEqual([written]);
  });
});

describe('writeContents writes calls that', () => {
  test.each([
    ['{"city":"Oslo","id":12345678901234567890}', '{"city":"Oslo","id":12345678901234567890}'],
    ['', '{}'],
    [' {} ', '{}'],
    ['[1]', '{"arguments":[1]}'],
    ['12345678901234567890', '{"arguments":12345678901234567890}'],
    ['{"city":"Os', '{"arguments":"{\\"city\\":\\"Os"}'],
  ])('have their arguments %s as an object', (json, args) => {
    const [, second] = writeContents(
      [userTurn('?'), model(call('a', 'weather', json))],
      makeTarget(),
    );
    expect(JSON.stringify(second?.parts[0])).toContain(`"args":${args}}`);
  });

  test('have the signature that directly precedes them', () => {
    expect(partsOf(model(reasoning('Hm.', 'gemini:S1'), call('a'), call('b')))).toEqual([
      { text: 'Hm.', thought: true },
      { functionCall: callA, thoughtSignature: 'S1' },
      { functionCall: callB },
    ]);
    const both = model(
      reasoning('', 'gemini:S1'),
      call('a'),
      reasoning('', 'gemini:S2'),
      call('b'),
    );
    const signed = [
      { functionCall: callA, thoughtSignature: 'S1' },
      { functionCall: callB, thoughtSignature: 'S2' },
    ];
    expect(partsOf(both)).toEqual(signed);
    const inFront = model(
      reasoning('', 'gemini:S1'),
      reasoning('', 'gemini:S2'),
      call('a'),
      call('b'),
    );
    expect(partsOf(inFront)).toEqual(signed);
  });

  test('have the signature that precedes them, even with text in between', () => {
    expect(partsOf(model(reasoning('', 'gemini:S1'), text('Let me see.'), call('a')))).toEqual([
      { text: 'Let me see.' },
      { functionCall: callA, thoughtSignature: 'S1' },
    ]);
  });

  test('have the nearest signature, while the text keeps its own', () => {
    const parts = [reasoning('', 'gemini:S1'), text('Let me see.'), reasoning('', 'gemini:S2')];
    expect(partsOf(model(...parts, call('a'), call('b')))).toEqual([
      { text: 'Let me see.' },
      { text: '', thoughtSignature: 'S1' },
      { functionCall: callA, thoughtSignature: 'S2' },
      { functionCall: callB },
    ]);
  });

  test('follow an empty text part for each additional signature', () => {
    const parts = [reasoning('', 'gemini:S1'), reasoning('', 'gemini:S2')];
    expect(partsOf(model(...parts, call('a')))).toEqual([
      { text: '', thoughtSignature: 'S1' },
      { functionCall: callA, thoughtSignature: 'S2' },
    ]);
  });

  test("have Google's placeholder if they lack a signature and the model checks signatures", () => {
    const turn = model(call('a'), call('b'));
    const signed = [
      { functionCall: callA, thoughtSignature: placeholderSignature },
      { functionCall: callB },
    ];
    expect(partsOf(turn)).toEqual(signed);
    expect(partsOf(model(reasoning('Hm.', 'responses:rs_1:x'), call('a'), call('b')))).toEqual(
      signed,
    );
    const unchecked = [{ functionCall }, { functionCall }];
    expect(partsOf(turn, makeTarget({ thinking: 'budget' }))).toEqual(unchecked);
    expect(partsOf(turn, makeTarget({ thinking: null }))).toEqual(unchecked);
  });

  test.each(['effort', 'budget', null] as const)(
    'have IDs and the placeholder for Gemini 3 and later, with thinking %p',
    (thinking) => {
      const turn = model(call('a'), call('b'));
      const partsFor = (upstreamModel: string) =>
        partsOf(turn, makeTarget({ upstreamModel, thinking }));
      const signed = { functionCall: callA, thoughtSignature: placeholderSignature };
      for (const name of ['models/gemini-3.5-flash', 'gemini-3-pro-preview', 'gemini-10-pro']) {
        expect(partsFor(name)).toEqual([signed, { functionCall: callB }]);
      }
      for (const name of ['gemini-2.5-flash', 'gemini-1.5-pro']) {
        expect(partsFor(name)).toEqual([{ functionCall }, { functionCall }]);
      }
    },
  );
});

describe('writeContents reasoning', () => {
  test("is dropped without Gemini's signature", () => {
    const parts = [
      reasoning('A', 'responses:rs_1:x'),
      reasoning('B', 'an Anthropic signature'),
      reasoning('C'),
      { kind: 'reasoning' as const, text: '', redacted: 'D' },
    ];
    expect(partsOf(model(...parts, text('Yes.')))).toEqual([{ text: 'Yes.' }]);
  });

  test('ends with an empty signed text if there is no call', () => {
    const ending = { text: '', thoughtSignature: 'S1' };
    expect(partsOf(model(reasoning('Hm.', 'gemini:S1'), text('Yes.')))).toEqual([
      { text: 'Hm.', thought: true },
      { text: 'Yes.' },
      ending,
    ]);
    expect(partsOf(model(text('Yes.'), reasoning('', 'gemini:S1')))).toEqual([
      { text: 'Yes.' },
      ending,
    ]);
  });
});

describe('writeContents writes tool results that', () => {
  const after = (turn: Turn, target = makeTarget({ thinking: 'budget' })) => {
    const calls = model(call('a', 'weather'), call('b', 'news'));
    const [, , third] = contents([userTurn('?'), calls, turn], target) as { parts: unknown }[];
    return third?.parts;
  };
  const image = { kind: 'image' as const, url: 'data:image/png;base64,AAAA' };
  const inlineData = { mimeType: 'image/png', data: 'AAAA' };

  test('have the names and the order of their calls, before other content', () => {
    expect(
      after(user(text('So?'), result('b', [text('war')]), result('a', [text('rain')]))),
    ).toEqual([
      { functionResponse: { name: 'weather', response: { output: 'rain' } } },
      { functionResponse: { name: 'news', response: { output: 'war' } } },
      { text: 'So?' },
    ]);
  });

  test('report failures and join text parts as paragraphs', () => {
    expect(after(user(result('a', [text('no'), text('way')], true), result('b', [])))).toEqual([
      { functionResponse: { name: 'weather', response: { error: 'no\n\nway' } } },
      { functionResponse: { name: 'news', response: { output: '' } } },
    ]);
  });

  test('contain text documents and precede files', () => {
    const textDocument = { kind: 'document' as const, source: { text: 'page 1' }, name: 'A book' };
    const file = { kind: 'document' as const, source: { fileId: 'files/1' } };
    expect(after(user(result('a', [text('see'), textDocument, file]), result('b', [])))).toEqual([
      { functionResponse: { name: 'weather', response: { output: 'see\n\nA book\n\npage 1' } } },
      { functionResponse: { name: 'news', response: { output: '' } } },
      { fileData: { fileUri: 'files/1' } },
    ]);
  });

  test('contain images for Gemini 3 and later, and precede them for older models', () => {
    const turn = user(result('a', [text('see'), image]), result('b', [text('war')]));
    const news = { name: 'news', response: { output: 'war' } };
    const response = { output: 'see' };
    expect(after(turn, makeTarget())).toEqual([
      { functionResponse: { id: 'a', name: 'weather', response, parts: [{ inlineData }] } },
      { functionResponse: { id: 'b', ...news } },
    ]);
    expect(after(turn)).toEqual([
      { functionResponse: { name: 'weather', response } },
      { functionResponse: news },
      { inlineData },
    ]);
  });

  test('precede images by URL', () => {
    const remoteImage = { kind: 'image' as const, url: 'https://a.example/b.png' };
    expect(
      after(user(result('a', [text('see'), remoteImage]), result('b', [])), makeTarget()),
    ).toEqual([
      { functionResponse: { id: 'a', name: 'weather', response: { output: 'see' } } },
      { functionResponse: { id: 'b', name: 'news', response: { output: '' } } },
      { fileData: { mimeType: 'image/png', fileUri: 'https://a.example/b.png' } },
    ]);
  });

  test('become text if their call is missing', () => {
    expect(after(user(result('a', [text('rain')]), result('x', [text('lost')])))).toEqual([
      { functionResponse: { name: 'weather', response: { output: 'rain' } } },
      { text: 'lost' },
    ]);
  });

  test('belong to the latest call with their ID', () => {
    const turns = [userTurn('?'), model(call('a', 'news')), user(result('a', [text('war')]))];
    const repeated = [...turns, model(call('a', 'weather')), user(result('a', [text('rain')]))];
    expect((contents(repeated) as { parts: unknown }[]).at(-1)?.parts).toEqual([
      { functionResponse: { id: 'a', name: 'weather', response: { output: 'rain' } } },
    ]);
  });
});
