import { describe, expect, test } from 'bun:test';
import { claudeCodeRequest } from '../../../tests/support/claude-code-request.ts';
import { foreignNamesMax } from '../../core/bounds.ts';
import { readDialogue } from './dialogue.ts';
import { readMessagesRequest } from './messages-request.ts';

function read(given: object = {}) {
  const body = {
    model: 'a/b',
    max_tokens: 9,
    messages: [{ role: 'user', content: 'Hi' }],
    ...given,
  };
  const text = JSON.stringify(body);
  const bytes = new TextEncoder().encode(text);
  return readDialogue(readMessagesRequest(JSON.parse(text), { text, bytes }));
}

test('an empty stop sequence says nothing', () => {
  expect(read({ stop_sequences: ['', 'END'] }).stop).toEqual(['END']);
});

describe("Claude Code's request in our words", () => {
  const dialogue = readDialogue({ body: claudeCodeRequest('a/b') as never, source: null });

  test('has the turns where they were, with results, errors and cache marks', () => {
    expect(dialogue.turns.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'user',
      'system',
    ]);
    expect(dialogue.turns[3]?.parts).toMatchObject([
      { kind: 'tool_result', callId: 'toolu_01', isError: false },
      {
        kind: 'tool_result',
        callId: 'toolu_02',
        isError: true,
        cacheControl: { type: 'ephemeral' },
      },
    ]);
    expect(dialogue.turns[2]?.parts[0]).toEqual({
      kind: 'reasoning',
      text: 'I should read the file.',
    });
    expect(dialogue.turns[4]?.parts[0]).toMatchObject({ cacheControl: { ttl: '1h' } });
  });

  test('has the tools that it runs itself; the others are told', () => {
    expect(dialogue.tools.map(({ name }) => name)).toEqual([
      'Read',
      'Bash',
      'mcp__tracker__list_issues',
    ]);
    expect(dialogue.foreign).toEqual([
      'context_management',
      'tools.defer_loading',
      'tools[3]',
      'tools[4]',
    ]);
    expect(dialogue.reasoning).toMatchObject({ effort: 'high', isAdaptive: true, visible: false });
    expect(dialogue.user).toContain('session_id');
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
    const dialogue = read({ messages: [{ role: 'user', content }] });
    expect(dialogue.turns[0]?.parts).toEqual([
      { kind: 'tool_result', callId: 'a', parts: [], isError: false },
      { kind: 'document', source: { url: 'data:application/pdf;base64,aGk=' }, name: 'A' },
      { kind: 'document', source: { url: 'https://a.example/b.pdf' } },
      { kind: 'document', source: { text: 'plain' } },
      { kind: 'document', source: { text: 'one\n\ntwo' } },
      { kind: 'document', source: { fileId: 'file_1' } },
    ]);
    expect(dialogue.foreign).toEqual(['document.citations']);
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
    const dialogue = read({ messages: [{ role: 'user', content }] });
    const here = { kind: 'image', url: 'data:image/png;base64,AAAA' } as const;
    const there = { kind: 'image', url: 'https://a.example/b.png' } as const;
    expect(dialogue.turns[0]?.parts).toEqual([
      {
        ...({ kind: 'tool_result', callId: 'a', isError: false } as const),
        parts: [{ kind: 'document', source: { text: 'three' } }, there],
      },
      { kind: 'document', source: { text: 'one\n\ntwo' }, name: 'A' },
      here,
      there,
      here,
    ]);
    expect(dialogue.foreign).toEqual(['messages.novelty']);
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
