import { describe, expect, test } from 'bun:test';
import { says } from '../../../tests/support/question.ts';
import type { AssistantPart, ToolResultPart, Turn, UserPart } from '../../core/dialogue.ts';
import { writeItems } from './write-items.ts';

const text = (said: string) => ({ kind: 'text' as const, text: said });
const items = (turn: Turn) => writeItems([turn]);
const user = (...parts: UserPart[]) => items({ role: 'user', parts });
const model = (...parts: AssistantPart[]) => items({ role: 'assistant', parts });
const call: AssistantPart = { kind: 'tool_call', id: 'call_1', name: 'now', arguments: '{"a":1}' };
const called = { type: 'function_call', call_id: 'call_1', name: 'now', arguments: '{"a":1}' };
const thought = (said: string, signature?: string): AssistantPart => ({
  kind: 'reasoning',
  text: said,
  signature,
});

describe('what the user says', () => {
  test('system texts stay where they stood', () => {
    const system: Turn = { role: 'system', parts: [text('Be brief.'), text(''), text('Be kind.')] };
    expect(writeItems([says('Hi'), system])).toEqual([
      { role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
      {
        role: 'system',
        content: [
          { type: 'input_text', text: 'Be brief.' },
          { type: 'input_text', text: 'Be kind.' },
        ],
      },
    ]);
    expect(items({ role: 'system', parts: [] })).toEqual([]);
  });

  test('an empty message stays one, but none is added beside results', () => {
    const result: UserPart = { kind: 'tool_result', callId: 'a', parts: [], isError: false };
    const output = { type: 'function_call_output', call_id: 'a', output: '' };
    for (const said of [[], [text('')]]) {
      expect(user(...said)).toEqual([{ role: 'user', content: '' }]);
      expect(user(result, ...said)).toEqual([output]);
    }
  });

  test.each<[string, UserPart, object]>([
    ['a text', text('Hi'), { type: 'input_text', text: 'Hi' }],
    [
      'a picture',
      { kind: 'image', url: 'data:image/png;base64,AAAA' },
      { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'auto' },
    ],
    [
      'a picture somewhere else, in detail',
      { kind: 'image', url: 'https://a.example/b.png', detail: 'high' },
      { type: 'input_image', image_url: 'https://a.example/b.png', detail: 'high' },
    ],
    [
      'a sound',
      { kind: 'audio', data: 'AAAA', format: 'wav' },
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
    ],
    [
      'a document',
      { kind: 'document', source: { url: 'data:application/pdf;base64,AAAA' } },
      {
        type: 'input_file',
        filename: 'document.pdf',
        file_data: 'data:application/pdf;base64,AAAA',
      },
    ],
    [
      'a document with a name',
      { kind: 'document', source: { url: 'data:application/pdf;base64,AAAA' }, name: 'a.pdf' },
      { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' },
    ],
    [
      'a document whose scheme is in capitals',
      { kind: 'document', source: { url: 'DATA:application/pdf;base64,AAAA' }, name: 'a.pdf' },
      { type: 'input_file', filename: 'a.pdf', file_data: 'DATA:application/pdf;base64,AAAA' },
    ],
    [
      'a document somewhere else',
      { kind: 'document', source: { url: 'https://a.example/b.pdf' }, name: 'b.pdf' },
      { type: 'input_file', file_url: 'https://a.example/b.pdf' },
    ],
    [
      'a document kept at OpenAI',
      { kind: 'document', source: { fileId: 'file-1' } },
      { type: 'input_file', file_id: 'file-1' },
    ],
    [
      'a document of words',
      { kind: 'document', source: { text: 'Once upon a time' }, name: 'Tale' },
      { type: 'input_text', text: 'Tale\n\nOnce upon a time' },
    ],
  ])('%s', (_, part, written) => {
    expect(user(part)).toEqual([{ role: 'user', content: [written] }]);
  });
});

describe('results', () => {
  const result = (parts: ToolResultPart['parts'], isError = false): UserPart => ({
    kind: 'tool_result',
    callId: 'call_1',
    parts,
    isError,
  });
  const picture = { kind: 'image' as const, url: 'data:image/png;base64,AAAA' };
  const shown = { type: 'input_image', image_url: picture.url, detail: 'auto' };
  const head = { type: 'function_call_output', call_id: 'call_1' };

  test('come before what the user says to them', () => {
    expect(user(text('So?'), result([text('rain')]))).toEqual([
      { ...head, output: 'rain' },
      { role: 'user', content: [{ type: 'input_text', text: 'So?' }] },
    ]);
  });

  test('say in words that the tool failed, because there is no mark for it', () => {
    expect(user(result([text('no'), text('way')], true))).toEqual([
      { ...head, output: 'Error: no\n\nway' },
    ]);
    expect(user(result([picture], true))).toEqual([
      { ...head, output: [{ type: 'input_text', text: 'Error: ' }, shown] },
    ]);
    expect(user(result([]))).toEqual([{ ...head, output: '' }]);
  });

  test('have the ids of their calls, however long those were elsewhere', () => {
    const ids = ['x'.repeat(65), 'x'.repeat(64)];
    const written = ids.flatMap((id) => [
      ...model({ ...call, id }),
      ...user({ kind: 'tool_result', callId: id, parts: [], isError: false }),
    ]);
    const [first = '', ...rest] = written.map((item) => 'call_id' in item && String(item.call_id));
    expect(rest).toEqual([first, 'x'.repeat(64), 'x'.repeat(64)]);
    expect(first).toMatch(/^call_\w{24}$/);
  });

  test('have their pictures inside', () => {
    expect(user(result([text('see'), picture]))).toEqual([
      { ...head, output: [{ type: 'input_text', text: 'see' }, shown] },
    ]);
  });
});

describe('what the model said', () => {
  const said = (...content: object[]) => ({ role: 'assistant', content });
  const yes = { type: 'output_text', text: 'Yes.' };

  test('texts and refusals are one message, calls are items', () => {
    expect(model(text('Yes.'), { kind: 'refusal', text: 'No.' }, text(''), call)).toEqual([
      said(yes, { type: 'refusal', refusal: 'No.' }),
      called,
    ]);
    expect(model({ ...call, arguments: '' })).toEqual([{ ...called, arguments: '{}' }]);
  });

  test('thoughts with our own proof come back before what followed them', () => {
    const signature = 'responses:rs_1:gAAA:=';
    const item = { type: 'reasoning', id: 'rs_1', encrypted_content: 'gAAA:=' };
    const summary = [{ type: 'summary_text', text: 'Hm.' }];
    expect(model(thought('Hm.', signature), call)).toEqual([{ ...item, summary }, called]);
    expect(model(thought('', signature), text('Yes.'))).toEqual([
      { ...item, summary: [] },
      said(yes),
    ]);
    expect(model(text('Yes.'), thought('', signature), call)).toEqual([
      said(yes),
      { ...item, summary: [] },
      called,
    ]);
  });

  test('a thought that nothing followed is left out: alone it is refused', () => {
    expect(model(text('Yes.'), thought('Hm.', 'responses:rs_1:x'))).toEqual([said(yes)]);
    expect(model(thought('Hm.', 'responses:rs_1:x'), text(''))).toEqual([]);
  });

  test.each([undefined, '', 'gemini:S1', 'an Anthropic one', 'responses:', 'responses:rs_1'])(
    'a thought with the signature %p stays here',
    (signature) => {
      expect(model(thought('Hm.', signature), call)).toEqual([called]);
    },
  );
});
