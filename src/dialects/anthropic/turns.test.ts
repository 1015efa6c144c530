import { expect, test } from 'bun:test';
import { readDialogue } from './dialogue.ts';

function read(role: 'user' | 'assistant', ...content: object[]) {
  const body = { model: 'a/b', max_tokens: 9, messages: [{ role, content }] };
  const { turns, foreign } = readDialogue({ body: body as never, source: null });
  return { parts: turns.flatMap(({ parts }): readonly unknown[] => parts), foreign };
}

const said = { type: 'text', text: 'And this.' };
const rest = [{ kind: 'text', text: 'And this.' }];

test('a picture that only Anthropic holds is told, and the words around it stay', () => {
  const image = { type: 'image', source: { type: 'file', file_id: 'file_1' } };
  expect(read('user', image, said)).toEqual({
    parts: rest,
    foreign: ['messages.image.source.file'],
  });
});

test('a document has its text, and what only Anthropic makes of it is told', () => {
  const source = { type: 'text', media_type: 'text/plain', data: 'plain' };
  const document = { type: 'document', source, context: 'A letter.' };
  expect(read('user', document)).toEqual({
    parts: [{ kind: 'document', source: { text: 'plain' } }],
    foreign: ['document.context'],
  });
});

test.each([
  ['user', { type: 'tool_use', id: 'a', name: 'b', input: {} }, 'tool_use'],
  ['assistant', { type: 'tool_result', tool_use_id: 'a' }, 'tool_result'],
] as const)('what a %s cannot say is told, and the words around it stay', (role, block, type) => {
  expect(read(role, block, said)).toEqual({ parts: rest, foreign: [`messages.${type}`] });
});

test('a thought comes back with its signature', () => {
  const thinking = { type: 'thinking', thinking: 'Hm.', signature: 'EqYC' };
  const hidden = { type: 'redacted_thinking', data: 'EncA' };
  expect(read('assistant', thinking, hidden, said).parts).toEqual([
    { kind: 'reasoning', text: 'Hm.', signature: 'EqYC' },
    { kind: 'reasoning', text: '', redacted: 'EncA' },
    ...rest,
  ]);
});

test.each(['user', 'assistant'] as const)(
  'what Anthropic made of a long conversation is words to others, as a %s has it',
  (role) => {
    const summary = { type: 'compaction', content: 'They spoke of Oslo.', signature: 'EqYC' };
    const told = { kind: 'text', text: 'They spoke of Oslo.' };
    expect(read(role, summary, said)).toEqual({ parts: [told, ...rest], foreign: [] });
    // Anthropic failed to write a summary.
    const none = { ...summary, content: null };
    expect(read(role, none, said)).toEqual({ parts: rest, foreign: ['messages.compaction'] });
  },
);

test('a passage that was searched for keeps its words, its title and where it is from', () => {
  const passage = {
    type: 'search_result',
    source: 'https://example.com/a',
    title: 'Opening hours',
    content: [
      { type: 'text', text: 'Daily.' },
      { type: 'text', text: 'Not on Mondays.' },
    ],
    citations: { enabled: true },
  };
  const name = 'Opening hours, https://example.com/a';
  const document = { kind: 'document', source: { text: 'Daily.\n\nNot on Mondays.' }, name };
  expect(read('user', passage, said)).toEqual({ parts: [document, ...rest], foreign: [] });
  const result = { type: 'tool_result', tool_use_id: 'a', content: [passage] };
  expect(read('user', result).parts).toMatchObject([{ kind: 'tool_result', parts: [document] }]);
  const empty = { type: 'search_result', source: 'a', title: 'b' };
  expect(read('user', empty, said)).toEqual({ parts: rest, foreign: ['messages.search_result'] });
});
