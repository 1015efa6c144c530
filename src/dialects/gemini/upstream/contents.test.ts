import { describe, expect, test } from 'bun:test';
import { userTurn, makeTarget } from '../../../../tests/support/prompts.ts';
import type { AssistantPart, ToolResultPart, Turn, UserPart } from '../../../core/prompt.ts';
import { writeContents } from './contents.ts';

const text = (said: string) => ({ kind: 'text' as const, text: said });
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
const thought = (said: string, signature?: string): AssistantPart => ({
  kind: 'reasoning',
  text: said,
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
const asked = { role: 'user', parts: [{ text: '?' }] };
const lost = 'skip_thought_signature_validator';
const functionCall = { name: 'weather', args: {} };

describe('the two sides', () => {
  // Work that grows with the square of the conversation misses the deadline of a test here.
  test('are joined in one go, however many messages and calls there are', () => {
    const talk = [
      ...Array.from({ length: 20_000 }, () => userTurn('Hi')),
      ...Array.from({ length: 20_000 }, () => model(text('Hm.'))),
      model(...Array.from({ length: 80_000 }, (_, at) => call(String(at)))),
    ];
    const contents = writeContents(talk, makeTarget());
    expect(contents.map(({ parts }) => parts.length)).toEqual([20_000, 100_000]);
  });

  test('take turns: neighbours are one, and what is empty is not there', () => {
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

  test('begin with the user', () => {
    expect(contents([model(text('Hello!')), userTurn('?')])).toEqual([
      { role: 'user', parts: [{ text: ' ' }] },
      { role: 'model', parts: [{ text: 'Hello!' }] },
      asked,
    ]);
  });

  test('an earlier refusal is sent as a text', () => {
    expect(partsOf(model({ kind: 'refusal', text: 'No.' }))).toEqual([{ text: 'No.' }]);
  });
});

describe('files', () => {
  const sent = (part: UserPart) => contents([user(part)]) as [{ parts: unknown }];

  test.each<[string, UserPart, unknown]>([
    [
      'a picture',
      { kind: 'image', url: 'data:image/png;base64,AAAA', detail: 'high' },
      { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
    ],
    [
      'a picture somewhere else',
      { kind: 'image', url: 'https://a.example/b.png' },
      { fileData: { mimeType: 'image/png', fileUri: 'https://a.example/b.png' } },
    ],
    [
      'a document somewhere else',
      { kind: 'document', source: { url: 'https://a.example/b.PDF?c=d.png' } },
      { fileData: { mimeType: 'application/pdf', fileUri: 'https://a.example/b.PDF?c=d.png' } },
    ],
    [
      'something that has no name',
      { kind: 'document', source: { url: 'https://a.pdf/b' } },
      { fileData: { fileUri: 'https://a.pdf/b' } },
    ],
    [
      'a sound',
      { kind: 'audio', data: 'AAAA', format: 'mp3' },
      { inlineData: { mimeType: 'audio/mp3', data: 'AAAA' } },
    ],
    [
      'a document',
      { kind: 'document', source: { url: 'data:application/pdf;base64,AAAA' }, name: 'a.pdf' },
      { inlineData: { mimeType: 'application/pdf', data: 'AAAA' } },
    ],
    [
      'a document of words',
      { kind: 'document', source: { text: 'Once upon a time' } },
      { text: 'Once upon a time' },
    ],
    [
      'a document of words with a title',
      { kind: 'document', source: { text: 'Once upon a time' }, name: 'A tale' },
      { text: 'A tale\n\nOnce upon a time' },
    ],
    [
      'a document kept at Google',
      { kind: 'document', source: { fileId: 'files/abc' } },
      { fileData: { fileUri: 'files/abc' } },
    ],
  ])('%s', (_, part, written) => {
    expect(sent(part)[0].parts).toEqual([written]);
  });
});

describe('calls', () => {
  test.each([
    ['{"city":"Oslo","id":12345678901234567890}', '{"city":"Oslo","id":12345678901234567890}'],
    ['', '{}'],
    [' {} ', '{}'],
    ['[1]', '{"arguments":[1]}'],
    ['12345678901234567890', '{"arguments":12345678901234567890}'],
    ['{"city":"Os', '{"arguments":"{\\"city\\":\\"Os"}'],
  ])('have an object of arguments: %s', (json, args) => {
    const [, second] = writeContents(
      [userTurn('?'), model(call('a', 'weather', json))],
      makeTarget(),
    );
    expect(JSON.stringify(second?.parts[0])).toContain(`"args":${args}}`);
  });

  test('carry the signature that stands right before them', () => {
    expect(partsOf(model(thought('Hm.', 'gemini:S1'), call('a'), call('b')))).toEqual([
      { text: 'Hm.', thought: true },
      { functionCall, thoughtSignature: 'S1' },
      { functionCall },
    ]);
    const each = model(thought('', 'gemini:S1'), call('a'), thought('', 'gemini:S2'), call('b'));
    const signed = [
      { functionCall, thoughtSignature: 'S1' },
      { functionCall, thoughtSignature: 'S2' },
    ];
    expect(partsOf(each)).toEqual(signed);
    const inFront = model(thought('', 'gemini:S1'), thought('', 'gemini:S2'), call('a'), call('b'));
    expect(partsOf(inFront)).toEqual(signed);
  });

  test('find their signature although a text came between', () => {
    expect(partsOf(model(thought('', 'gemini:S1'), text('Let me see.'), call('a')))).toEqual([
      { text: 'Let me see.' },
      { functionCall, thoughtSignature: 'S1' },
    ]);
  });

  test('take the nearest signature; that of the text stays', () => {
    const parts = [thought('', 'gemini:S1'), text('Let me see.'), thought('', 'gemini:S2')];
    expect(partsOf(model(...parts, call('a'), call('b')))).toEqual([
      { text: 'Let me see.' },
      { text: '', thoughtSignature: 'S1' },
      { functionCall, thoughtSignature: 'S2' },
      { functionCall },
    ]);
  });

  test('leave surplus signatures on an empty text', () => {
    const parts = [thought('', 'gemini:S1'), thought('', 'gemini:S2')];
    expect(partsOf(model(...parts, call('a')))).toEqual([
      { text: '', thoughtSignature: 'S1' },
      { functionCall, thoughtSignature: 'S2' },
    ]);
  });

  test('without a signature have Google’s word for it, where the model checks', () => {
    const turn = model(call('a'), call('b'));
    const signed = [{ functionCall, thoughtSignature: lost }, { functionCall }];
    expect(partsOf(turn)).toEqual(signed);
    expect(partsOf(model(thought('Hm.', 'responses:rs_1:x'), call('a'), call('b')))).toEqual(
      signed,
    );
    const unchecked = [{ functionCall }, { functionCall }];
    expect(partsOf(turn, makeTarget({ thinking: 'budget' }))).toEqual(unchecked);
    expect(partsOf(turn, makeTarget({ thinking: null }))).toEqual(unchecked);
  });
});

describe('thoughts', () => {
  test('without a signature of Gemini are not sent', () => {
    const parts = [
      thought('A', 'responses:rs_1:x'),
      thought('B', 'an Anthropic signature'),
      thought('C'),
      { kind: 'reasoning' as const, text: '', redacted: 'D' },
    ];
    expect(partsOf(model(...parts, text('Yes.')))).toEqual([{ text: 'Yes.' }]);
  });

  test('end with an empty signed text when there is no call', () => {
    const ending = { text: '', thoughtSignature: 'S1' };
    expect(partsOf(model(thought('Hm.', 'gemini:S1'), text('Yes.')))).toEqual([
      { text: 'Hm.', thought: true },
      { text: 'Yes.' },
      ending,
    ]);
    expect(partsOf(model(text('Yes.'), thought('', 'gemini:S1')))).toEqual([
      { text: 'Yes.' },
      ending,
    ]);
  });
});

describe('results', () => {
  const after = (turn: Turn, target = makeTarget({ thinking: 'budget' })) => {
    const calls = model(call('a', 'weather'), call('b', 'news'));
    const [, , third] = contents([userTurn('?'), calls, turn], target) as { parts: unknown }[];
    return third?.parts;
  };
  const picture = { kind: 'image' as const, url: 'data:image/png;base64,AAAA' };
  const inlineData = { mimeType: 'image/png', data: 'AAAA' };

  test('have the names of their calls and stand in the order of these, before all else', () => {
    expect(
      after(user(text('So?'), result('b', [text('war')]), result('a', [text('rain')]))),
    ).toEqual([
      { functionResponse: { name: 'weather', response: { output: 'rain' } } },
      { functionResponse: { name: 'news', response: { output: 'war' } } },
      { text: 'So?' },
    ]);
  });

  test('that failed say so, and texts are paragraphs', () => {
    expect(after(user(result('a', [text('no'), text('way')], true), result('b', [])))).toEqual([
      { functionResponse: { name: 'weather', response: { error: 'no\n\nway' } } },
      { functionResponse: { name: 'news', response: { output: '' } } },
    ]);
  });

  test('have the words of a document among their own, and its file beside them', () => {
    const words = { kind: 'document' as const, source: { text: 'page 1' }, name: 'A book' };
    const file = { kind: 'document' as const, source: { fileId: 'files/1' } };
    expect(after(user(result('a', [text('see'), words, file]), result('b', [])))).toEqual([
      { functionResponse: { name: 'weather', response: { output: 'see\n\nA book\n\npage 1' } } },
      { functionResponse: { name: 'news', response: { output: '' } } },
      { fileData: { fileUri: 'files/1' } },
    ]);
  });

  test('have pictures inside from Gemini 3 on, and beside them before', () => {
    const turn = user(result('a', [text('see'), picture]), result('b', [text('war')]));
    const news = { functionResponse: { name: 'news', response: { output: 'war' } } };
    const response = { output: 'see' };
    expect(after(turn, makeTarget())).toEqual([
      { functionResponse: { name: 'weather', response, parts: [{ inlineData }] } },
      news,
    ]);
    expect(after(turn)).toEqual([
      { functionResponse: { name: 'weather', response } },
      news,
      { inlineData },
    ]);
  });

  test('have pictures beside them that are not here as bytes', () => {
    const far = { kind: 'image' as const, url: 'https://a.example/b.png' };
    expect(after(user(result('a', [text('see'), far]), result('b', [])), makeTarget())).toEqual([
      { functionResponse: { name: 'weather', response: { output: 'see' } } },
      { functionResponse: { name: 'news', response: { output: '' } } },
      { fileData: { mimeType: 'image/png', fileUri: 'https://a.example/b.png' } },
    ]);
  });

  test('whose call is gone are told as text', () => {
    expect(after(user(result('a', [text('rain')]), result('x', [text('lost')])))).toEqual([
      { functionResponse: { name: 'weather', response: { output: 'rain' } } },
      { text: 'lost' },
    ]);
  });

  test('of a call in two places belong to the later one', () => {
    const turns = [userTurn('?'), model(call('a', 'news')), user(result('a', [text('war')]))];
    const again = [...turns, model(call('a', 'weather')), user(result('a', [text('rain')]))];
    expect((contents(again) as { parts: unknown }[]).at(-1)?.parts).toEqual([
      { functionResponse: { name: 'weather', response: { output: 'rain' } } },
    ]);
  });
});
