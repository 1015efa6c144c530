import { expect, test } from 'bun:test';
import { makePrompt } from '../../../../tests/support/prompts.ts';
import type { DocumentPart } from '../../../core/prompt.ts';
import { writeBody } from './chat-body.ts';

const written = (...parts: DocumentPart[]) => {
  const { body, dropped } = writeBody(makePrompt({ turns: [{ role: 'user', parts }] }));
  return { content: body.messages?.[0]?.content, dropped };
};

test('writeBody writes a text document as text with its name', () => {
  const { content } = written(
    { kind: 'document', source: { text: 'All of it.' }, name: 'A letter' },
    { kind: 'document', source: { text: 'More.' } },
  );
  expect(content).toEqual([
    { type: 'text', text: 'A letter\n\nAll of it.' },
    { type: 'text', text: 'More.' },
  ]);
});

test("writeBody writes a file's bytes or id, and reports a URL as dropped", () => {
  const url = 'data:application/pdf;base64,AAAA';
  const upperCase = 'DATA:application/pdf;base64,BBBB';
  expect(
    written(
      { kind: 'document', source: { url }, name: 'a.pdf' },
      { kind: 'document', source: { url: upperCase } },
      { kind: 'document', source: { fileId: 'file-1' } },
      { kind: 'document', source: { url: 'https://a.example/b.pdf' } },
    ),
  ).toEqual({
    content: [
      { type: 'file', file: { filename: 'a.pdf', file_data: url } },
      { type: 'file', file: { filename: 'document.pdf', file_data: upperCase } },
      { type: 'file', file: { file_id: 'file-1' } },
      { type: 'text', text: 'Document: https://a.example/b.pdf' },
    ],
    dropped: ['document.url'],
  });
});

test('writeBody writes the output limit as max_tokens', () => {
  expect(writeBody(makePrompt({ outputTokensMax: 9 })).body).toMatchObject({ max_tokens: 9 });
});

test.each([
  ['high', true, 'high', []],
  ['high', false, null, ['reasoning']],
  ['none', false, null, []],
] as const)(
  'writeBody writes the effort %s when the model reasons: %p',
  (effort, reasons, expectedEffort, expectedDropped) => {
    const options = { effort, budgetTokens: null, visible: true };
    const { body, dropped } = writeBody(makePrompt({ reasoning: options }), reasons);
    expect([body.reasoning_effort, dropped]).toEqual([expectedEffort, [...expectedDropped]]);
  },
);

test.each([
  [null, true, 'medium'],
  ['low', true, 'low'],
  [null, false, null],
] as const)(
  'writeBody writes the effort %p with adaptive %p as %p',
  (effort, isAdaptive, expected) => {
    const reasoning = { effort, budgetTokens: null, isAdaptive, visible: true };
    expect(writeBody(makePrompt({ reasoning })).body.reasoning_effort).toBe(expected);
  },
);

test('writeBody reports sampling parameters that OpenAI lacks', () => {
  const { body, dropped } = writeBody(makePrompt({ sampling: { topK: 4, topP: 0.5 } }));
  expect([body.top_p, dropped]).toEqual([0.5, ['top_k']]);
  expect(body).not.toHaveProperty('top_k');
});

test.each([
  ['required', 'required'],
  ['none', 'none'],
  [{ name: 'look' }, { type: 'function', function: { name: 'look' } }],
] as const)('writeBody writes the tool choice %j as %j', (toolChoice, expected) => {
  const tools = [{ name: 'look', parameters: null }];
  expect(writeBody(makePrompt({ tools, toolChoice })).body.tool_choice).toEqual(expected);
  expect(writeBody(makePrompt({ toolChoice })).body.tool_choice ?? null).toBeNull();
});

test('writeBody writes parallel_tool_calls only with tools', () => {
  const tools = [{ name: 'look', parameters: null }];
  const written = (fields: object) =>
    writeBody(makePrompt({ parallelTools: false, ...fields })).body.parallel_tool_calls ?? null;
  expect([written({ tools }), written({})]).toEqual([false, null]);
});

// OpenAI rejects a schema that MCP servers and Claude accept: "object schema missing properties".
test.each([
  [null, { type: 'object', properties: {} }],
  [{ type: 'object' }, { type: 'object', properties: {} }],
  [{ $ref: '#/$defs/a' }, { type: 'object', properties: {}, $ref: '#/$defs/a' }],
] as const)(
  'writeBody writes the tool schema %j as an object with properties',
  (parameters, expected) => {
    const { body } = writeBody(makePrompt({ tools: [{ name: 'look', parameters }] }));
    expect(body.tools).toMatchObject([{ function: { parameters: expected } }]);
  },
);
