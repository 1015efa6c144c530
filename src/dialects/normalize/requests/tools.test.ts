import { expect, test } from 'bun:test';
import { makePrompt, userTurn } from '../../../../tests/support/prompts.ts';
import { jsonNamesMax } from '../../../core/bounds.ts';
import type { AssistantPart } from '../../../core/prompt.ts';
import { readPrompt } from '../../openai-chat/client/prompt.ts';
import { ToolNames } from './tool-identifiers.ts';
import { freeFormInput, rejectTooManyArguments } from './tools.ts';

const names = (count: number) => `{${'"name":1,'.repeat(count - 1)}"name":1}`;

const plain = readPrompt({
  body: { model: 'a/b', messages: [{ role: 'user', content: 'Hi' }] },
  source: null,
});

function rejecting(...texts: readonly string[]): () => void {
  const parts = texts.map((json, index): AssistantPart => {
    return { kind: 'tool_call', id: `call_${index}`, name: 'look', arguments: json };
  });
  return () => rejectTooManyArguments({ ...plain, turns: [{ role: 'assistant', parts }] });
}

const message = 'The arguments of tool calls have more than 150000 fields.';

test('rejectTooManyArguments counts the fields of all calls', () => {
  expect(jsonNamesMax).toBe(150_000);
  expect(rejecting(names(150_000))).not.toThrow();
  expect(rejecting(names(150_001))).toThrow(message);
  const hundredth = names(1_500);
  expect(rejecting(...Array<string>(100).fill(hundredth))).not.toThrow();
  expect(rejecting(...Array<string>(100).fill(hundredth), names(1))).toThrow(message);
});

test('rejectTooManyArguments counts the values of all calls', () => {
  const values = (count: number) => `{"a":[${'0,'.repeat(count - 2)}0]}`;
  expect(rejecting(values(500_000), values(500_000))).not.toThrow();
  expect(rejecting(values(500_000), values(500_001))).toThrow(
    'The arguments of tool calls have too many values.',
  );
});

test('rejectTooManyArguments counts the call after an unterminated string', () => {
  expect(rejecting('{"', names(150_001))).toThrow(message);
});

test('rejectTooManyArguments ignores colons in strings', () => {
  const file = 'a: b\n'.repeat(400_000);
  expect(rejecting(JSON.stringify({ path: '/a', content: file }))).not.toThrow();
});

const long = `mcp__${'x'.repeat(80)}`;
const call = (name: string) => ({ kind: 'tool_call' as const, id: name, name, arguments: '{}' });
const prompt = makePrompt({
  tools: ['look', long, 'db.read', 'db:read'].map((name) => ({ name, parameters: null })),
  toolChoice: { name: 'db.read' },
  turns: [userTurn('Hi'), { role: 'assistant', parts: [call(long), call('gone.tool')] }],
});

test('ToolNames renames names that an upstream rejects and restores them', () => {
  const names = new ToolNames(prompt, 64);
  const { tools, toolChoice, turns } = names.shortenIn(prompt);
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

test('ToolNames returns the same prompt if no name changes', () => {
  const plain = makePrompt({ tools: [{ name: 'look', parameters: null }] });
  expect(new ToolNames(plain, 64).shortenIn(plain)).toBe(plain);
});

test('ToolNames renames names that start with a digit or dash and restores them', () => {
  const duplicatePrompt = makePrompt({
    tools: ['21st_look', '-look'].map((name) => ({ name, parameters: null })),
    toolChoice: { name: '21st_look' },
  });
  const names = new ToolNames(duplicatePrompt, 64);
  const { tools, toolChoice } = names.shortenIn(duplicatePrompt);
  const sent = tools.map(({ name }) => name);
  for (const name of sent) expect(name).toMatch(/^[A-Za-z_][\w-]{1,63}$/);
  expect(sent.map((name) => names.restore(name))).toEqual(['21st_look', '-look']);
  expect(toolChoice).toEqual({ name: sent[0] ?? '' });
});

test('ToolNames offers the first of several tools with the same name', () => {
  const tools = ['look', 'listen', 'look'].map((name, index) => ({
    name,
    description: `No. ${index}`,
    parameters: null,
  }));
  const duplicatePrompt = makePrompt({ tools });
  const offered = new ToolNames(duplicatePrompt, 64).shortenIn(duplicatePrompt).tools;
  expect(offered.map(({ description }) => description)).toEqual(['No. 0', 'No. 1']);
});

test.each([
  ['{"input":"*** Begin Patch"}', '*** Begin Patch'],
  ['{"input":""}', ''],
  ['{}', ''],
  ['*** Begin Patch', '*** Begin Patch'],
  ['{"patch":"*** Begin Patch"}', '{"patch":"*** Begin Patch"}'],
])('freeFormInput reads the arguments %j as %j', (json, text) => {
  expect(freeFormInput(json)).toBe(text);
});
