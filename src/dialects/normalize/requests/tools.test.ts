import { expect, test } from 'bun:test';
import { question, says } from '../../../../tests/support/question.ts';
import { jsonNamesMax } from '../../../core/bounds.ts';
import type { AssistantPart } from '../../../core/prompt.ts';
import { readPrompt } from '../../openai-chat/client/prompt.ts';
import { freeFormInput, rejectTooManyArguments, ToolNames } from './tools.ts';

const names = (count: number) => `{${'"name":1,'.repeat(count - 1)}"name":1}`;

const plain = readPrompt({
  body: { model: 'a/b', messages: [{ role: 'user', content: 'Hi' }] },
  source: null,
});

function refuse(...texts: readonly string[]): () => void {
  const parts = texts.map((json, at): AssistantPart => {
    return { kind: 'tool_call', id: `call_${at}`, name: 'look', arguments: json };
  });
  return () => rejectTooManyArguments({ ...plain, turns: [{ role: 'assistant', parts }] });
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

const long = `mcp__${'x'.repeat(80)}`;
const call = (name: string) => ({ kind: 'tool_call' as const, id: name, name, arguments: '{}' });
const dialogue = question({
  tools: ['look', long, 'db.read', 'db:read'].map((name) => ({ name, parameters: null })),
  toolChoice: { name: 'db.read' },
  turns: [says('Hi'), { role: 'assistant', parts: [call(long), call('gone.tool')] }],
});

test('names that an upstream does not take go there under others, and come back', () => {
  const names = new ToolNames(dialogue, 64);
  const { tools, toolChoice, turns } = names.shortenIn(dialogue);
  const sent = tools.map(({ name }) => name);
  for (const name of sent) expect(name).toMatch(/^[\w-]{1,64}$/);
  expect(new Set(sent).size).toBe(4);
  expect([sent[0], names.offered]).toEqual(['look', sent]);
  expect(sent.map((name) => names.restore(name))).toEqual(['look', long, 'db.read', 'db:read']);
  expect(toolChoice).toEqual({ name: sent[2] ?? '' });
  const called = turns[1]?.parts.map((part) => ('name' in part ? part.name : ''));
  expect(called?.[0]).toBe(sent[1] ?? '');
  expect(called?.[1]).toMatch(/^gone_tool_\w{8}$/);
});

test('a dialogue with nothing to change is answered as it is', () => {
  const plain = question({ tools: [{ name: 'look', parameters: null }] });
  expect(new ToolNames(plain, 64).shortenIn(plain)).toBe(plain);
});

test('a name with a digit or a dash in front goes under another, and comes back', () => {
  const given = question({
    tools: ['21st_look', '-look'].map((name) => ({ name, parameters: null })),
    toolChoice: { name: '21st_look' },
  });
  const names = new ToolNames(given, 64);
  const { tools, toolChoice } = names.shortenIn(given);
  const sent = tools.map(({ name }) => name);
  for (const name of sent) expect(name).toMatch(/^[A-Za-z_][\w-]{1,63}$/);
  expect(sent.map((name) => names.restore(name))).toEqual(['21st_look', '-look']);
  expect(toolChoice).toEqual({ name: sent[0] ?? '' });
});

test('of tools with the same name the first is offered', () => {
  const tools = ['look', 'listen', 'look'].map((name, at) => ({
    name,
    description: `No. ${at}`,
    parameters: null,
  }));
  const given = question({ tools });
  const offered = new ToolNames(given, 64).shortenIn(given).tools;
  expect(offered.map(({ description }) => description)).toEqual(['No. 0', 'No. 1']);
});

test.each([
  ['{"input":"*** Begin Patch"}', '*** Begin Patch'],
  ['{"input":""}', ''],
  ['{}', ''],
  ['*** Begin Patch', '*** Begin Patch'],
  ['{"patch":"*** Begin Patch"}', '{"patch":"*** Begin Patch"}'],
])('the text in a call with the arguments %j is %j', (json, text) => {
  expect(freeFormInput(json)).toBe(text);
});
