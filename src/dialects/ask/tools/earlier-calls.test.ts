import { expect, test } from 'bun:test';
import { jsonNamesMax } from '../../../core/bounds.ts';
import type { AssistantPart } from '../../../core/dialogue.ts';
import { readDialogue } from '../../openai/dialogue.ts';
import { refuseManyArguments } from './earlier-calls.ts';

const names = (count: number) => `{${'"name":1,'.repeat(count - 1)}"name":1}`;

const plain = readDialogue({
  body: { model: 'a/b', messages: [{ role: 'user', content: 'Hi' }] },
  source: null,
});

function refuse(...texts: readonly string[]): () => void {
  const parts = texts.map((json, at): AssistantPart => {
    return { kind: 'tool_call', id: `call_${at}`, name: 'look', arguments: json };
  });
  return () => refuseManyArguments({ ...plain, turns: [{ role: 'assistant', parts }] });
}

const sentence = 'The arguments of tool calls have more than 150000 fields.';

test('all calls together have as many names as a request may', () => {
  expect(jsonNamesMax).toBe(150_000);
  expect(refuse(names(150_000))).not.toThrow();
  expect(refuse(names(150_001))).toThrow(sentence);
  const hundredth = names(1_500);
  expect(refuse(...Array<string>(100).fill(hundredth))).not.toThrow();
  expect(refuse(...Array<string>(100).fill(hundredth), names(1))).toThrow(sentence);
});

test('an unterminated text in one call hides no names of the next call', () => {
  expect(refuse('{"', names(150_001))).toThrow(sentence);
});

test('colons inside texts do not count as names', () => {
  const file = 'a: b\n'.repeat(400_000);
  expect(refuse(JSON.stringify({ path: '/a', content: file }))).not.toThrow();
});
