import { describe, expect, test } from 'bun:test';
import { claudeCodeRequest } from '../../../../tests/support/claude-code-request.ts';
import { foreignNamesMax } from '../../../core/bounds.ts';
import { readPrompt } from './prompt.ts';
import { readMessagesRequest } from './request.ts';

function read(given: object = {}) {
  const body = {
    model: 'a/b',
    max_tokens: 9,
    messages: [{ role: 'user', content: 'Hi' }],
    ...given,
  };
  const text = JSON.stringify(body);
  const bytes = new TextEncoder().encode(text);
  return readPrompt(readMessagesRequest(JSON.parse(text), { text, bytes }));
}

test('an empty stop sequence says nothing', () => {
  expect(read({ stop_sequences: ['', 'END'] }).stop).toEqual(['END']);
});

describe("Claude Code's request in our words", () => {
  const prompt = readPrompt({ body: claudeCodeRequest('a/b') as never, source: null });

  test('has the turns where they were, with results, errors and cache marks', () => {
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

  test('has the tools that it runs itself; the others are told', () => {
    expect(prompt.tools.map(({ name }) => name)).toEqual([
      'Read',
      'Bash',
      'mcp__tracker__list_issues',
    ]);
    expect(prompt.foreign).toEqual([
      'context_management',
      'tools.defer_loading',
      'tools[3]',
      'tools[4]',
    ]);
    expect(prompt.reasoning).toMatchObject({ effort: 'high', isAdaptive: true, visible: false });
    expect(prompt.user).toContain('session_id');
  });
});

describe('a request in our words', () => {
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
  ] as const)('wishes for reasoning by %j', (given, reasoning) => {
    expect(read(given).reasoning).toEqual(reasoning);
  });

  test.each([
    [{ type: 'auto' }, 'auto', null],
    [{ type: 'any', disable_parallel_tool_use: true }, 'required', false],
    [{ type: 'tool', name: 'x', disable_parallel_tool_use: false }, { name: 'x' }, true],
    [{ type: 'none' }, 'none', null],
  ] as const)('chooses tools by %j', (tool_choice, toolChoice, parallelTools) => {
    expect(read({ tool_choice })).toMatchObject({ toolChoice, parallelTools });
  });

  test.each(['output_config', 'output_format'])('wants JSON by %s', (field) => {
    const format = { type: 'json_schema', schema: { type: 'object' } };
    const given = field === 'output_config' ? { output_config: { format } } : { [field]: format };
    expect(read(given).json).toEqual({ schema: { type: 'object' }, name: 'response' });
  });

  test('has documents of every kind, and results before words', () => {
    const document = (source: object, more: object = {}) => ({ type: 'document', source, ...more });
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
    expect(prompt.foreign).toEqual(['document.citations']);
  });

  test('shows the pictures that stand in a document, also in that of a tool', () => {
    const text = (said: string) => ({ type: 'text', text: said });
    const source = { type: 'base64', media_type: 'image/png', data: 'AAAA' };
    const picture = { type: 'image', source };
    const far = { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } };
    const document = (...content: object[]) => ({
      type: 'document',
      source: { type: 'content', content },
    });
    const mixed = { ...document(text('one'), picture, text('two'), far), title: 'A' };
    const found = [document(text('three'), { type: 'novelty' }, far)];
    const result = { type: 'tool_result', tool_use_id: 'a', content: found };
    const content = [mixed, document(picture), result];
    const prompt = read({ messages: [{ role: 'user', content }] });
    const here = { kind: 'image', url: 'data:image/png;base64,AAAA' } as const;
    const there = { kind: 'image', url: 'https://a.example/b.png' } as const;
    expect(prompt.turns[0]?.parts).toEqual([
      {
        ...({ kind: 'tool_result', callId: 'a', isError: false } as const),
        parts: [{ kind: 'document', source: { text: 'three' } }, there],
      },
      { kind: 'document', source: { text: 'one\n\ntwo' }, name: 'A' },
      here,
      there,
      here,
    ]);
    expect(prompt.foreign).toEqual(['messages.novelty']);
  });

  test('names the tools that a search for tools has found', () => {
    const found = [
      { type: 'tool_reference', tool_name: 'CronList' },
      { type: 'tool_reference', tool_name: 'NotebookEdit' },
      { type: 'tool_reference' },
    ];
    const content = [{ type: 'tool_result', tool_use_id: 'a', content: found }];
    const { foreign, turns } = read({ messages: [{ role: 'user', content }] });
    expect(turns[0]?.parts).toMatchObject([
      {
        callId: 'a',
        parts: [
          { kind: 'text', text: 'CronList' },
          { kind: 'text', text: 'NotebookEdit' },
        ],
      },
    ]);
    expect(foreign).toEqual(['messages.tool_reference']);
  });

  test('tells of blocks that only Anthropic knows, each once and not without end', () => {
    const content = Array.from({ length: 200 }, (_, i) => ({ type: `novelty_${i % 50}` }));
    const { foreign, turns } = read({ messages: [{ role: 'user', content }] });
    expect(foreign).toHaveLength(foreignNamesMax);
    expect(foreign[0]).toBe('messages.novelty_0');
    expect(turns[0]?.parts).toEqual([]);
  });
});

function readTurnsOf(role: 'user' | 'assistant', ...content: object[]) {
  const body = { model: 'a/b', max_tokens: 9, messages: [{ role, content }] };
  const { turns, foreign } = readPrompt({ body: body as never, source: null });
  return { parts: turns.flatMap(({ parts }): readonly unknown[] => parts), foreign };
}

const said = { type: 'text', text: 'And this.' };
const rest = [{ kind: 'text', text: 'And this.' }];

test('a picture that only Anthropic holds is told, and the words around it stay', () => {
  const image = { type: 'image', source: { type: 'file', file_id: 'file_1' } };
  expect(readTurnsOf('user', image, said)).toEqual({
    parts: rest,
    foreign: ['messages.image.source.file'],
  });
});

test('a document has its text, and what only Anthropic makes of it is told', () => {
  const source = { type: 'text', media_type: 'text/plain', data: 'plain' };
  const document = { type: 'document', source, context: 'A letter.' };
  expect(readTurnsOf('user', document)).toEqual({
    parts: [{ kind: 'document', source: { text: 'plain' } }],
    foreign: ['document.context'],
  });
});

test.each([
  ['user', { type: 'tool_use', id: 'a', name: 'b', input: {} }, 'tool_use'],
  ['assistant', { type: 'tool_result', tool_use_id: 'a' }, 'tool_result'],
] as const)('what a %s cannot say is told, and the words around it stay', (role, block, type) => {
  expect(readTurnsOf(role, block, said)).toEqual({ parts: rest, foreign: [`messages.${type}`] });
});

test('a thought comes back with its signature', () => {
  const thinking = { type: 'thinking', thinking: 'Hm.', signature: 'EqYC' };
  const hidden = { type: 'redacted_thinking', data: 'EncA' };
  expect(readTurnsOf('assistant', thinking, hidden, said).parts).toEqual([
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
    expect(readTurnsOf(role, summary, said)).toEqual({ parts: [told, ...rest], foreign: [] });
    // Anthropic failed to write a summary.
    const none = { ...summary, content: null };
    expect(readTurnsOf(role, none, said)).toEqual({
      parts: rest,
      foreign: ['messages.compaction'],
    });
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
  expect(readTurnsOf('user', passage, said)).toEqual({ parts: [document, ...rest], foreign: [] });
  const result = { type: 'tool_result', tool_use_id: 'a', content: [passage] };
  expect(readTurnsOf('user', result).parts).toMatchObject([
    { kind: 'tool_result', parts: [document] },
  ]);
  const empty = { type: 'search_result', source: 'a', title: 'b' };
  expect(readTurnsOf('user', empty, said)).toEqual({
    parts: rest,
    foreign: ['messages.search_result'],
  });
});
