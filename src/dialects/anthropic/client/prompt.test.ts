import { describe, expect, test } from 'bun:test';
import { claudeCodeRequest } from '../../../../tests/support/claude-code-request.ts';
import { unsupportedNamesMax } from '../../../core/bounds.ts';
import { readPrompt } from './prompt.ts';
import { readMessagesRequest } from './request.ts';

function read(fields: object = {}) {
  const body = {
    model: 'a/b',
    max_tokens: 9,
    messages: [{ role: 'user', content: 'Hi' }],
    ...fields,
  };
  const text = JSON.stringify(body);
  const bytes = new TextEncoder().encode(text);
  return readPrompt(readMessagesRequest(JSON.parse(text), { text, bytes }));
}

test('readPrompt drops empty stop sequences', () => {
  expect(read({ stop_sequences: ['', 'END'] }).stop).toEqual(['END']);
});

describe('readPrompt of a Claude Code request', () => {
  const prompt = readPrompt({ body: claudeCodeRequest('a/b') as never, source: null });

  test('keeps the order of turns, results, errors, and cache breakpoints', () => {
    expect(prompt.turns.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'user',
      'system',
    ]);
    expect(prompt.turns[3]?.parts).toMatchObject([
      { kind: 'tool_result', callId: 'toolu_01', isError: false },
      {
        kind: 'tool_result',
        callId: 'toolu_02',
        isError: true,
        cacheControl: { type: 'ephemeral' },
      },
    ]);
    expect(prompt.turns[2]?.parts[0]).toEqual({
      kind: 'reasoning',
      text: 'I should read the file.',
    });
    expect(prompt.turns[4]?.parts[0]).toMatchObject({ cacheControl: { ttl: '1h' } });
  });

  test('keeps client tools and reports the others as unsupported', () => {
    expect(prompt.tools.map(({ name }) => name)).toEqual([
      'Read',
      'Bash',
      'mcp__tracker__list_issues',
    ]);
    expect(prompt.unsupported).toEqual([
      'context_management',
      'tools.defer_loading',
      'tools[3]',
      'tools[4]',
    ]);
    expect(prompt.reasoning).toMatchObject({ effort: 'high', isAdaptive: true, visible: false });
    expect(prompt.user).toContain('session_id');
  });
});

describe('readPrompt', () => {
  test.each([
    [{}, null],
    [{ thinking: { type: 'disabled' } }, { effort: 'none', budgetTokens: null, visible: true }],
    [
      { thinking: { type: 'enabled', budget_tokens: 2_000 } },
      { effort: null, budgetTokens: 2_000, isAdaptive: false, visible: true },
    ],
    [
      { thinking: { type: 'adaptive' } },
      { effort: null, budgetTokens: null, isAdaptive: true, visible: true },
    ],
    [{ output_config: { effort: 'max' } }, { effort: 'max', budgetTokens: null, visible: true }],
  ] as const)('reads reasoning options from %j', (fields, reasoning) => {
    expect(read(fields).reasoning).toEqual(reasoning);
  });

  test.each([
    [{ type: 'auto' }, 'auto', null],
    [{ type: 'any', disable_parallel_tool_use: true }, 'required', false],
    [{ type: 'tool', name: 'x', disable_parallel_tool_use: false }, { name: 'x' }, true],
    [{ type: 'none' }, 'none', null],
  ] as const)('reads the tool choice %j', (tool_choice, toolChoice, parallelTools) => {
    expect(read({ tool_choice })).toMatchObject({ toolChoice, parallelTools });
  });

  test('requests strict JSON if the schema meets the rules of strict mode', () => {
    const strictOf = (schema: object) =>
      read({ output_config: { format: { type: 'json_schema', schema } } }).json?.strict;
    const city = { type: 'object', properties: { name: { type: 'string' } } };
    const closed = { ...city, required: ['name'], additionalProperties: false };
    const listOf = (items: object) => ({
      ...closed,
      properties: { name: { type: 'array', items } },
    });
    expect([closed, listOf(closed), { ...closed, $defs: { closed } }].map(strictOf)).toEqual([
      true,
      true,
      true,
    ]);
    const open = { ...city, required: ['name'] };
    const optional = { ...closed, required: [] };
    for (const schema of [open, optional, listOf(open), { ...closed, $defs: { optional } }]) {
      expect(strictOf(schema)).toBeUndefined();
    }
  });

  test.each(['output_config', 'output_format'])('reads the JSON format from %s', (field) => {
    const format = { type: 'json_schema', schema: { type: 'object' } };
    const fields = field === 'output_config' ? { output_config: { format } } : { [field]: format };
    expect(read(fields).json).toEqual({ schema: { type: 'object' }, name: 'response' });
  });

  test('reads documents of every kind, and moves tool results to the front', () => {
    const document = (source: object, extraFields: object = {}) => ({
      type: 'document',
      source,
      ...extraFields,
    });
    const content = [
      document({ type: 'base64', media_type: 'application/pdf', data: 'aGk=' }, { title: 'A' }),
      document({ type: 'url', url: 'https://a.example/b.pdf' }),
      document({ type: 'text', media_type: 'text/plain', data: 'plain' }),
      document({
        type: 'content',
        content: [
          { type: 'text', text: 'one' },
          { type: 'text', text: 'two' },
        ],
      }),
      document({ type: 'file', file_id: 'file_1' }, { citations: { enabled: true } }),
      { type: 'tool_result', tool_use_id: 'a' },
    ];
    const prompt = read({ messages: [{ role: 'user', content }] });
    expect(prompt.turns[0]?.parts).toEqual([
      { kind: 'tool_result', callId: 'a', parts: [], isError: false },
      { kind: 'document', source: { url: 'data:application/pdf;base64,aGk=' }, name: 'A' },
      { kind: 'document', source: { url: 'https://a.example/b.pdf' } },
      { kind: 'document', source: { text: 'plain' } },
      { kind: 'document', source: { text: 'one\n\ntwo' } },
      { kind: 'document', source: { fileId: 'file_1' } },
    ]);
    expect(prompt.unsupported).toEqual(['document.citations']);
  });

  test('reads images inside documents, including documents in tool results', () => {
    const text = (content: string) => ({ type: 'text', text: content });
    const source = { type: 'base64', media_type: 'image/png', data: 'AAAA' };
    const inlineImage = { type: 'image', source };
    const remoteImage = { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } };
    const document = (...content: object[]) => ({
      type: 'document',
      source: { type: 'content', content },
    });
    const mixed = { ...document(text('one'), inlineImage, text('two'), remoteImage), title: 'A' };
    const inResult = [document(text('three'), { type: 'novelty' }, remoteImage)];
    const result = { type: 'tool_result', tool_use_id: 'a', content: inResult };
    const content = [mixed, document(inlineImage), result];
    const prompt = read({ messages: [{ role: 'user', content }] });
    const inlinePart = { kind: 'image', url: 'data:image/png;base64,AAAA' } as const;
    const remotePart = { kind: 'image', url: 'https://a.example/b.png' } as const;
    expect(prompt.turns[0]?.parts).toEqual([
      {
        ...({ kind: 'tool_result', callId: 'a', isError: false } as const),
        parts: [{ kind: 'document', source: { text: 'three' } }, remotePart],
      },
      { kind: 'document', source: { text: 'one\n\ntwo' }, name: 'A' },
      inlinePart,
      remotePart,
      inlinePart,
    ]);
    expect(prompt.unsupported).toEqual(['messages.novelty']);
  });

  test('reads the results of a tool search as tool names', () => {
    const found = [
      { type: 'tool_reference', tool_name: 'CronList' },
      { type: 'tool_reference', tool_name: 'NotebookEdit' },
      { type: 'tool_reference' },
    ];
    const content = [{ type: 'tool_result', tool_use_id: 'a', content: found }];
    const { unsupported, turns } = read({ messages: [{ role: 'user', content }] });
    expect(turns[0]?.parts).toMatchObject([
      {
        callId: 'a',
        parts: [
          { kind: 'text', text: 'CronList' },
          { kind: 'text', text: 'NotebookEdit' },
        ],
      },
    ]);
    expect(unsupported).toEqual(['messages.tool_reference']);
  });

  test('reports each unknown block type once, up to a limit', () => {
    const content = Array.from({ length: 200 }, (_, i) => ({ type: `novelty_${i % 50}` }));
    const { unsupported, turns } = read({ messages: [{ role: 'user', content }] });
    expect(unsupported).toHaveLength(unsupportedNamesMax);
    expect(unsupported[0]).toBe('messages.novelty_0');
    expect(turns[0]?.parts).toEqual([]);
  });
});

function readTurnsOf(role: 'user' | 'assistant', ...content: object[]) {
  const body = { model: 'a/b', max_tokens: 9, messages: [{ role, content }] };
  const { turns, unsupported } = readPrompt({ body: body as never, source: null });
  return { parts: turns.flatMap(({ parts }): readonly unknown[] => parts), unsupported };
}

const textBlock = { type: 'text', text: 'And this.' };
const textPart = [{ kind: 'text', text: 'And this.' }];

test('readPrompt drops and reports an image referenced by file ID, but keeps the text', () => {
  const image = { type: 'image', source: { type: 'file', file_id: 'file_1' } };
  expect(readTurnsOf('user', image, textBlock)).toEqual({
    parts: textPart,
    unsupported: ['messages.image.source.file'],
  });
});

test('readPrompt reads the text of a document and reports its context', () => {
  const source = { type: 'text', media_type: 'text/plain', data: 'plain' };
  const document = { type: 'document', source, context: 'A letter.' };
  expect(readTurnsOf('user', document)).toEqual({
    parts: [{ kind: 'document', source: { text: 'plain' } }],
    unsupported: ['document.context'],
  });
});

test.each([
  ['user', { type: 'tool_use', id: 'a', name: 'b', input: {} }, 'tool_use'],
  ['assistant', { type: 'tool_result', tool_use_id: 'a' }, 'tool_result'],
] as const)(
  'readPrompt drops and reports a block that a %s message cannot contain',
  (role, block, type) => {
    expect(readTurnsOf(role, block, textBlock)).toEqual({
      parts: textPart,
      unsupported: [`messages.${type}`],
    });
  },
);

test('readPrompt reads thinking with its signature', () => {
  const thinking = { type: 'thinking', thinking: 'Hm.', signature: 'EqYC' };
  const redacted = { type: 'redacted_thinking', data: 'EncA' };
  expect(readTurnsOf('assistant', thinking, redacted, textBlock).parts).toEqual([
    { kind: 'reasoning', text: 'Hm.', signature: 'EqYC' },
    { kind: 'reasoning', text: '', redacted: 'EncA' },
    ...textPart,
  ]);
});

test.each(['user', 'assistant'] as const)(
  'readPrompt reads a conversation summary in a %s message as text',
  (role) => {
    const summary = { type: 'compaction', content: 'They spoke of Oslo.', signature: 'EqYC' };
    const summaryPart = { kind: 'text', text: 'They spoke of Oslo.' };
    expect(readTurnsOf(role, summary, textBlock)).toEqual({
      parts: [summaryPart, ...textPart],
      unsupported: [],
    });
    // Anthropic failed to write a summary.
    const failed = { ...summary, content: null };
    expect(readTurnsOf(role, failed, textBlock)).toEqual({
      parts: textPart,
      unsupported: ['messages.compaction'],
    });
  },
);

test('readPrompt reads a search result as a document with its title and source', () => {
  const searchResult = {
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
  expect(readTurnsOf('user', searchResult, textBlock)).toEqual({
    parts: [document, ...textPart],
    unsupported: [],
  });
  const result = { type: 'tool_result', tool_use_id: 'a', content: [searchResult] };
  expect(readTurnsOf('user', result).parts).toMatchObject([
    { kind: 'tool_result', parts: [document] },
  ]);
  const empty = { type: 'search_result', source: 'a', title: 'b' };
  expect(readTurnsOf('user', empty, textBlock)).toEqual({
    parts: textPart,
    unsupported: ['messages.search_result'],
  });
});
