import { expect, test } from 'bun:test';
import { writeBody } from '../openai/write.ts';
import { readDialogue } from './dialogue.ts';

const said = (text: string) => ({
  ...{ type: 'message', role: 'assistant' },
  content: [{ type: 'output_text', text }],
});
const call = { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' };
const result = { type: 'function_call_output', call_id: 'a', output: 'x' };
const proof = { id: 'rs_1', encrypted_content: 'c2ln' };
const thought = { type: 'reasoning', ...proof, summary: [{ type: 'summary_text', text: 'Hm.' }] };

/** The assistant's messages as a chat gets them, each as one text. */
function heard(...input: object[]) {
  const { body } = writeBody(readDialogue({ body: { model: 'a/b', input }, source: null }));
  return body.messages.map(({ role, content }) => [role, content]);
}

test('messages of the assistant in a row stay messages of their own', () => {
  expect(heard(said('One.'), said('Two.'), { role: 'user', content: 'Hi' })).toEqual([
    ['assistant', 'One.'],
    ['assistant', 'Two.'],
    ['user', 'Hi'],
  ]);
});

test('a thought between them belongs to the second', () => {
  const { turns } = readDialogue({
    body: { model: 'a/b', input: [said('One.'), thought, said('Two.')] },
    source: null,
  });
  expect(turns.map(({ parts }) => parts.map(({ kind }) => kind))).toEqual([
    ['text'],
    ['reasoning', 'text'],
  ]);
});

test('calls stand with all that is said around them, so that their results follow', () => {
  expect(heard(said('One.'), call, said('Two.'), result)).toEqual([
    ['assistant', 'One.Two.'],
    ['tool', 'x'],
  ]);
});

test.each(['compaction', 'compaction_summary', 'context_compaction', 'compaction_trigger'])(
  'a conversation with an item of the type %s cannot be told in our words',
  (type) => {
    const body = { model: 'a/b', input: [{ role: 'user', content: 'Hi' }, { type }] };
    expect(readDialogue({ body, source: null }).unheard).toEqual({ param: 'input[1]', type });
  },
);
