import { describe, expect, test } from 'bun:test';
import { question, says, targetOf } from '../../../tests/support/question.ts';
import type { AssistantPart, DocumentPart, Turn, UserPart } from '../../core/dialogue.ts';
import type { Target } from '../dialect.ts';
import { writeRequest } from './write.ts';

interface Message {
  readonly role: string;
  readonly content: readonly Record<string, unknown>[];
}

function write(turns: readonly Turn[], target: Partial<Target> = {}) {
  const request = writeRequest(question({ turns }), targetOf({ thinking: 'budget', ...target }));
  const body = JSON.parse(String(request.body)) as { system?: unknown; messages: Message[] };
  return { ...body, dropped: request.dropped };
}

const user = (...parts: UserPart[]): Turn => ({ role: 'user', parts });
const assistant = (...parts: AssistantPart[]): Turn => ({ role: 'assistant', parts });
const text = (said: string) => ({ kind: 'text', text: said }) as const;
const call = (id: string) => ({ kind: 'tool_call', id, name: 'f', arguments: '{"a":1}' }) as const;
const result = (callId: string, said: string, isError = false) =>
  ({ kind: 'tool_result', callId, parts: [text(said)], isError }) as const;
const marked = { cacheControl: { type: 'ephemeral' } };
const cachePoint = { cachePoint: { type: 'default' } };

describe('turns', () => {
  test('alternate, and a user begins', () => {
    const { messages } = write([
      assistant(text('Hi.')),
      assistant(text('Well?')),
      says('Yes'),
      says('No'),
    ]);
    expect(messages).toEqual([
      { role: 'user', content: [{ text: 'Continue.' }] },
      { role: 'assistant', content: [{ text: 'Hi.' }, { text: 'Well?' }] },
      { role: 'user', content: [{ text: 'Yes' }, { text: 'No' }] },
    ]);
  });

  test('of white space only are left out, but at least one turn is sent', () => {
    const { messages, system } = write([
      { role: 'system', parts: [text('Be brief.'), text('  ')] },
      user(text('\n')),
    ]);
    expect(system).toEqual([{ text: 'Be brief.' }]);
    expect(messages).toEqual([{ role: 'user', content: [{ text: 'Continue.' }] }]);
  });

  test('that end with the assistant go on from there, without a space at the end', () => {
    const turns = [says('Count'), assistant(text('One, '))];
    expect(write(turns).messages.at(-1)).toEqual({
      role: 'assistant',
      content: [{ text: 'One,' }],
    });
    expect(write(turns, { thinking: 'adaptive' }).messages.at(-1)).toEqual({
      role: 'user',
      content: [{ text: 'Continue.' }],
    });
    const cached = [says('Count'), assistant({ ...text('One, '), ...marked })];
    expect(write(cached).messages.at(-1)?.content).toEqual([{ text: 'One,' }, cachePoint]);
  });

  test('keep all results of one turn in one message, in front', () => {
    const { messages } = write([
      says('Go'),
      assistant(call('c1'), call('c2')),
      user(result('c1', 'one'), text('and')),
      user({ ...result('c2', 'two', true), ...marked }),
    ]);
    const toolUse = (toolUseId: string) => ({ toolUse: { toolUseId, name: 'f', input: { a: 1 } } });
    expect(messages.slice(1)).toEqual([
      { role: 'assistant', content: [toolUse('c1'), toolUse('c2')] },
      {
        role: 'user',
        content: [
          { toolResult: { toolUseId: 'c1', content: [{ text: 'one' }] } },
          { toolResult: { toolUseId: 'c2', content: [{ text: 'two' }], status: 'error' } },
          cachePoint,
          { text: 'and' },
        ],
      },
    ]);
  });

  test('keep a result with nothing in it, which some models refuse', () => {
    const image = { kind: 'image', url: 'data:image/gif;base64,R0lG' } as const;
    const { messages } = write([
      says('Go'),
      assistant(call('c1'), call('c2'), call('c3')),
      user(result('c1', ' \n'), { ...result('c2', ''), parts: [] }),
      user({ ...result('c3', ''), parts: [text(''), image] }),
    ]);
    const given = messages.at(-1)?.content.map(({ toolResult }) => toolResult);
    expect(given).toMatchObject([
      { toolUseId: 'c1', content: [{ text: expect.stringMatching(/\w/) }] },
      { toolUseId: 'c2', content: [{ text: expect.stringMatching(/\w/) }] },
      { toolUseId: 'c3', content: [{ image: { format: 'gif' } }] },
    ]);
  });

  test('of ten thousand messages of one side are one', () => {
    const { messages } = write(Array.from({ length: 10_000 }, (_, at) => says(`w${at}`)));
    expect(messages).toHaveLength(1);
    expect(messages[0]?.content).toHaveLength(10_000);
  });
});

describe('parts', () => {
  test('are cached up to the marked one', () => {
    const { messages, system } = write([
      { role: 'system', parts: [{ ...text('Rules'), ...marked }] },
      user({ ...text('Book'), ...marked }, text('Question')),
    ]);
    expect(system).toEqual([{ text: 'Rules' }, cachePoint]);
    expect(messages[0]?.content).toEqual([{ text: 'Book' }, cachePoint, { text: 'Question' }]);
  });

  test('have no mark behind a document that is no PDF, where Bedrock refuses it', () => {
    const document = (type: string) =>
      ({
        kind: 'document',
        name: 'tides',
        source: { url: `data:${type};base64,aGk=` },
        ...marked,
      }) as const;
    const { messages, dropped } = write([user(document('text/csv'), document('application/pdf'))]);
    const kinds = messages[0]?.content.flatMap((block) => Object.keys(block));
    expect(kinds).toEqual(['document', 'document', 'cachePoint', 'text']);
    expect(dropped).toEqual(['cache_control']);
  });

  test('of pictures are bytes', () => {
    const shown = (url: string) => ({ kind: 'image', url }) as const;
    const inside = { ...result('c1', ' '), parts: [shown('data:image/gif;base64,R0lG')] };
    const { messages } = write([
      user(shown('data:image/jpg;base64,/9j/'), shown('data:image/webp;base64,UklG')),
      assistant(call('c1')),
      user(inside),
    ]);
    const image = (format: string, bytes: string) => ({ image: { format, source: { bytes } } });
    expect(messages[0]?.content).toEqual([image('jpeg', '/9j/'), image('webp', 'UklG')]);
    expect(messages[2]?.content).toEqual([
      { toolResult: { toolUseId: 'c1', content: [image('gif', 'R0lG')] } },
    ]);
  });

  test.each(['data:image/tiff;base64,SUkq', 'https://a.example/x', 'data:,%'])(
    'with the picture %s are refused',
    (url) => {
      expect(() => write([user({ kind: 'image', url })])).toThrow('PNG, JPEG, GIF or WebP');
    },
  );

  test('of sound are dropped and told', () => {
    const { messages, dropped } = write([
      user({ kind: 'audio', data: 'UklG', format: 'wav' }, text('What?')),
    ]);
    expect(messages[0]?.content).toEqual([{ text: 'What?' }]);
    expect(dropped).toEqual(['input_audio']);
  });

  test.each([
    ['Bedrock', {}, /^[\w-]{1,64}$/],
    ['Mistral', { tool_call_ids: 'nine_characters' }, /^[A-Za-z0-9]{9}$/],
  ] as const)('of calls have ids that %s takes, the same for the result', (_, quirks, pattern) => {
    const [odd, long] = ['call.1:ü', 'x'.repeat(65)];
    const turns = [
      says('Go'),
      assistant(call(odd), call(long)),
      user(result(odd, 'a'), result(long, 'b')),
    ];
    const { messages } = write(turns, { quirks });
    const ids = messages.slice(1).map(({ content }) =>
      content.map((block) => {
        const { toolUseId } = (block.toolUse ?? block.toolResult) as { toolUseId: string };
        return toolUseId;
      }),
    );
    expect(ids[0]).toEqual(ids[1] ?? []);
    expect(new Set(ids[0]).size).toBe(2);
    for (const id of ids[0] ?? []) expect(id).toMatch(pattern);
  });
});

describe('thoughts', () => {
  const parts: AssistantPart[] = [
    { kind: 'reasoning', text: 'Hm.', signature: 'sig' },
    { kind: 'reasoning', text: 'Unsigned.' },
    { kind: 'reasoning', text: 'Of another.', signature: 'gemini:sig' },
    { kind: 'reasoning', text: '', redacted: 'EtkE+/=' },
    text('Yes.'),
  ];
  const turns = [says('A'), assistant(...parts), says('B')];

  test('go back with their proofs, and only those that have one', () => {
    expect(write(turns).messages[1]?.content).toEqual([
      { reasoningContent: { reasoningText: { text: 'Hm.', signature: 'sig' } } },
      { reasoningContent: { redactedContent: Buffer.from('EtkE+/=').toString('base64') } },
      { text: 'Yes.' },
    ]);
  });

  test.each([null, 'effort'] as const)('are not sent to models that sign none: %p', (thinking) => {
    expect(write(turns, { thinking }).messages[1]?.content).toEqual([{ text: 'Yes.' }]);
  });
});

describe('documents', () => {
  const document = (source: DocumentPart['source'], name?: string): DocumentPart => ({
    kind: 'document',
    source,
    name,
  });
  const pdf = { url: 'data:application/pdf;base64,JVBE' };
  const written = (format: string, name: string, bytes: string) => ({
    document: { format, name, source: { bytes } },
  });

  test('have names that Bedrock takes, each its own', () => {
    const { messages } = write([
      user(
        document(pdf, 'Q3__report (final).pdf'),
        document(pdf, 'Q3 report (final) pdf'),
        document({ text: 'Hi' }),
        document({ url: 'data:text/markdown,%23%20A' }, '…'),
        document(pdf, 'x'.repeat(300)),
        text('Compare'),
      ),
    ]);
    expect(messages[0]?.content).toEqual([
      written('pdf', 'Q3 report (final) pdf', 'JVBE'),
      written('pdf', 'Q3 report (final) pdf 2', 'JVBE'),
      written('txt', 'document', 'SGk='),
      written('md', 'document 2', 'IyBB'),
      written('pdf', 'x'.repeat(190), 'JVBE'),
      { text: 'Compare' },
    ]);
  });

  test('with nothing in them are left out', () => {
    const { messages } = write([user(document({ text: ' \n' }, 'a'), text('Well?'))]);
    expect(messages[0]?.content).toEqual([{ text: 'Well?' }]);
  });

  test('do not come without a word', () => {
    const { messages } = write([user(document(pdf, 'a'))]);
    expect(messages[0]?.content).toEqual([
      written('pdf', 'a', 'JVBE'),
      { text: 'See the attached document.' },
    ]);
  });

  test.each([
    [{ url: 'https://a.example/x.pdf' }, 'as data: URLs only'],
    [{ fileId: 'file_1' }, 'as data: URLs only'],
    [{ url: 'data:application/zip;base64,UEsD' }, 'of the type application/zip'],
  ])('that cannot be sent are refused: %p', (source, message) => {
    expect(() => write([user(document(source))])).toThrow(message);
  });
});
