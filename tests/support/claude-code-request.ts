// The request that Claude Code sends after its first tool call, with betas, several kinds of tools,
// adaptive thinking, cache breakpoints, and a system message in the middle.

const ephemeral = { type: 'ephemeral' };

export const claudeCodeHeaders: Readonly<Record<string, string>> = {
  'anthropic-version': '2023-06-01',
  'anthropic-beta':
    'claude-code-20250219,interleaved-thinking-2025-05-14,' +
    'effort-2025-11-24,context-management-2025-06-27',
  'x-app': 'cli',
  'x-claude-code-session-id': '0b8e1c1e-8a52-4e0f-9a0e-5b9d2f6f3c11',
  'user-agent': 'claude-cli/2.1.325 (external, cli)',
  'anthropic-dangerous-direct-browser-access': 'true',
};

const messages = [
  {
    role: 'user',
    content: [
      { type: 'text', text: '<system-reminder>Today is Sunday.</system-reminder>' },
      { type: 'text', text: 'What is in notes.txt?', cache_control: ephemeral },
    ],
  },
  {
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: 'I should read the file.', signature: '' },
      { type: 'text', text: 'I will look.' },
      { type: 'tool_use', id: 'toolu_01', name: 'Read', input: { file_path: '/notes.txt' } },
      { type: 'tool_use', id: 'toolu_02', name: 'Bash', input: { command: 'ls' } },
    ],
  },
  {
    role: 'user',
    content: [
      { type: 'tool_result', tool_use_id: 'toolu_01', content: '1\tbuy milk' },
      {
        type: 'tool_result',
        tool_use_id: 'toolu_02',
        content: [{ type: 'text', text: 'ls: cannot open directory' }],
        is_error: true,
        cache_control: ephemeral,
      },
    ],
  },
  {
    role: 'system',
    content: [
      { type: 'text', text: 'Plan mode is over.', cache_control: { ...ephemeral, ttl: '1h' } },
    ],
  },
];

const tools = [
  {
    name: 'Read',
    description: 'Reads a file.',
    input_schema: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: { file_path: { type: 'string' }, limit: { type: 'number' } },
      required: ['file_path'],
      additionalProperties: false,
    },
  },
  {
    name: 'Bash',
    description: 'Runs a command.',
    input_schema: { type: 'object', properties: { command: { type: 'string' } } },
  },
  {
    name: 'mcp__tracker__list_issues',
    description: 'Lists issues.',
    input_schema: { type: 'object', properties: {} },
    defer_loading: true,
  },
  { type: 'tool_search_tool_regex_20251119', name: 'tool_search_tool_regex' },
  { type: 'web_search_20250305', name: 'web_search', max_uses: 8 },
];

export function claudeCodeRequest(model: string) {
  return {
    model,
    messages,
    system: [
      { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1.325' },
      { type: 'text', text: 'You are Claude Code.', cache_control: ephemeral },
    ],
    tools,
    metadata: {
      user_id: '{"device_id":"d1","account_uuid":"","session_id":"0b8e1c1e"}',
    },
    max_tokens: 64_000,
    thinking: { type: 'adaptive', display: 'omitted' },
    output_config: { effort: 'high' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
    stream: true,
  };
}
