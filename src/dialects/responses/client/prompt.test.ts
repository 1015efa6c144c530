import { describe, expect, test } from 'bun:test';
import { writeBody } from '../../openai-chat/upstream/chat-body.ts';
import { readPrompt } from './prompt.ts';
import { readResponsesRequest } from './request.ts';

function read(fields: object) {
  const body = { model: 'a/b', input: 'Hi', ...fields };
  const text = JSON.stringify(body);
  const source = { text, bytes: new TextEncoder().encode(text) };
  return readPrompt(readResponsesRequest(JSON.parse(text), source));
}

const user = (text: string) => ({ role: 'user', content: text });

describe('readPrompt', () => {
  test('reads a string as a user turn after the instructions', () => {
    expect(read({ instructions: 'Be brief.' }).turns).toEqual([
      { role: 'system', parts: [{ kind: 'text', text: 'Be brief.' }] },
      { role: 'user', parts: [{ kind: 'text', text: 'Hi' }] },
    ]);
  });

  test('groups consecutive items with the same role into a turn', () => {
    const call = { type: 'function_call', call_id: 'c1', name: 'look' };
    const result = { type: 'function_call_output', call_id: 'c1', output: 'rain' };
    const { turns } = read({
      input: [
        { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Rules' }] },
        user('Weather?'),
        { type: 'reasoning', id: 'rs_1', summary: [{ text: 'Hm' }, { text: 'so' }] },
        {
          type: 'message',
          role: 'assistant',
          content: [
            { type: 'output_text', text: 'Let me look.' },
            { type: 'refusal', refusal: 'Not there.' },
          ],
        },
        { ...call, arguments: '{"at":"Oslo"}' },
        { ...call, call_id: 'c2', arguments: '' },
        result,
        { ...result, call_id: 'c2' },
        user('And?'),
        user('Well?'),
      ],
    });
    const rain = { kind: 'tool_result', parts: [{ kind: 'text', text: 'rain' }], isError: false };
    expect(turns as unknown[]).toEqual([
      { role: 'system', parts: [{ kind: 'text', text: 'Rules' }] },
      { role: 'user', parts: [{ kind: 'text', text: 'Weather?' }] },
      {
        role: 'assistant',
        parts: [
          { kind: 'reasoning', text: 'Hm\n\nso' },
          { kind: 'text', text: 'Let me look.' },
          { kind: 'refusal', text: 'Not there.' },
          { kind: 'tool_call', id: 'c1', name: 'look', arguments: '{"at":"Oslo"}' },
          { kind: 'tool_call', id: 'c2', name: 'look', arguments: '' },
        ],
      },
      {
        role: 'user',
        parts: [
          { ...rain, callId: 'c1' },
          { ...rain, callId: 'c2' },
          { kind: 'text', text: 'And?' },
        ],
      },
      { role: 'user', parts: [{ kind: 'text', text: 'Well?' }] },
    ]);
  });

  test('reads images and files in tool results', () => {
    const output = [
      { type: 'input_text', text: 'noon' },
      { type: 'input_image', image_url: 'https://a.example/b.png', detail: 'low' },
      { type: 'input_file', file_data: 'data:application/pdf;base64,aGk=', filename: 'a.pdf' },
      { type: 'input_file', file_url: 'https://a.example/b.pdf' },
      { type: 'input_file', file_id: 'file_1' },
    ];
    const [turn] = read({ input: [{ type: 'function_call_output', call_id: 'c', output }] }).turns;
    expect(turn?.parts).toMatchObject([
      {
        callId: 'c',
        parts: [
          { kind: 'text', text: 'noon' },
          { kind: 'image', url: 'https://a.example/b.png', detail: 'low' },
          { kind: 'document', source: { url: 'data:application/pdf;base64,aGk=' }, name: 'a.pdf' },
          { kind: 'document', source: { url: 'https://a.example/b.pdf' } },
          { kind: 'document', source: { fileId: 'file_1' } },
        ],
      },
    ]);
  });

  test.each([
    ['anthropic:EqYC', { signature: 'EqYC' }],
    ['redacted:data', { redacted: 'data' }],
    ['gemini:abc', { signature: 'gemini:abc' }],
    ['gAAAA', { signature: 'responses:rs_1:gAAAA' }],
    ['responses:rs_9:gAAAA', { signature: 'responses:rs_9:gAAAA' }],
  ])('reads the signature %s of a reasoning item', (signature, expected) => {
    const item = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: signature };
    const [turn] = read({ input: [item] }).turns;
    expect(turn?.parts).toEqual([{ kind: 'reasoning', text: '', ...expected }]);
  });

  test("reports items and parts that a prompt can't represent", () => {
    const { unsupported, turns } = read({
      input: [
        { type: 'web_search_call', id: 'ws_1' },
        { role: 'user', content: [{ type: 'input_hologram' }, { type: 'input_text', text: 'x' }] },
        { role: 'user', content: [{ type: 'input_image', file_id: 'file_1' }] },
      ],
    });
    expect(unsupported).toEqual([
      'input.web_search_call',
      'input.input_hologram',
      'input.input_image.file_id',
    ]);
    expect(turns).toHaveLength(2);
  });
});

describe('readPrompt', () => {
  const schema = { type: 'object', properties: { at: { type: 'string' } } };
  const look = { type: 'function', name: 'look', parameters: schema, strict: true };

  test('reads function tools and reports other tools as dropped', () => {
    const { tools, unsupported } = read({
      tools: [look, { type: 'computer' }, { ...look, name: 'b', parameters: null, defer: 1 }],
    });
    expect(tools).toEqual([
      { name: 'look', parameters: schema, strict: true },
      { name: 'b', parameters: null, strict: true },
    ]);
    expect(unsupported).toEqual(['tools[1]', 'tools.defer']);
  });

  test('reads custom tools as functions with one text parameter, including the grammar', () => {
    const format = { type: 'grammar', syntax: 'lark', definition: 'start: "a"' };
    const patch = { type: 'custom', name: 'patch', description: 'Patches.', format };
    const call = { type: 'custom_tool_call', call_id: 'c', name: 'patch', input: 'a "b"\n' };
    const result = { type: 'custom_tool_call_output', call_id: 'c', output: 'done' };
    const { tools, turns, toolChoice } = read({
      tools: [patch],
      input: [call, result],
      tool_choice: { type: 'custom', name: 'patch' },
    });
    expect(tools).toEqual([
      {
        name: 'patch',
        description:
          "Patches.\n\nPass the tool's entire input text in `input`, unchanged.\n\n" +
          'It must follow this lark grammar:\nstart: "a"',
        parameters: {
          type: 'object',
          properties: { input: { type: 'string' } },
          required: ['input'],
          additionalProperties: false,
        },
      },
    ]);
    expect(toolChoice).toEqual({ name: 'patch' });
    expect(turns[0]?.parts).toEqual([
      { kind: 'tool_call', id: 'c', name: 'patch', arguments: '{"input":"a \\"b\\"\\n"}' },
    ]);
  });

  test('prefixes the names of tools with their namespace', () => {
    const inside = { type: 'namespace', name: 'agents', tools: [look] };
    const call = { type: 'function_call', call_id: 'c', name: 'look', arguments: '{}' };
    const { tools, turns } = read({
      tools: [inside, { ...inside, name: 'mcp__x__' }],
      input: [{ ...call, namespace: 'agents' }],
    });
    expect(tools.map(({ name }) => name)).toEqual(['agents__look', 'mcp__x__look']);
    expect(turns[0]?.parts).toMatchObject([{ name: 'agents__look' }]);
  });

  test('reads only the allowed tools', () => {
    const { tools, toolChoice } = read({
      tools: [look, { ...look, name: 'b' }],
      tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ name: 'b' }] },
    });
    expect([tools.map(({ name }) => name), toolChoice]).toEqual([['b'], 'required']);
  });

  test('reads allowed tools without a mode as auto', () => {
    const { tools, toolChoice } = read({
      tools: [look],
      tool_choice: { type: 'allowed_tools', tools: [{ name: look.name }] },
    });
    expect([tools.length, toolChoice]).toEqual([1, 'auto']);
  });
});

test("readPrompt reads options and reports those it can't represent", () => {
  const schema = { type: 'object' };
  const prompt = read({
    text: { format: { type: 'json_schema', name: 'n', schema, strict: true }, verbosity: 'low' },
    reasoning: { effort: 'high', summary: 'auto' },
    parallel_tool_calls: false,
    max_output_tokens: 9,
    temperature: 0.5,
    top_p: 0.5,
    user: 'ann',
    stream: true,
    service_tier: 'flex',
    truncation: 'auto',
    prompt_cache_key: 'k',
    include: ['message.output_text.logprobs'],
    novelty: 1,
  });
  expect(prompt).toMatchObject({
    json: { name: 'n', schema, strict: true },
    reasoning: { effort: 'high', budgetTokens: null, visible: true },
    parallelTools: false,
    outputTokensMax: 9,
    sampling: { temperature: 0.5, topP: 0.5 },
    user: 'ann',
    promptCacheKey: 'k',
    stream: true,
  });
  expect(prompt.unsupported).toEqual([
    'novelty',
    'include',
    'text.verbosity',
    'truncation',
    'service_tier',
  ]);
});

test('readPrompt does not report default values as unsupported', () => {
  const defaults = {
    text: { format: { type: 'text' }, verbosity: 'medium' },
    include: ['reasoning.encrypted_content'],
    service_tier: 'auto',
    truncation: 'disabled',
    store: true,
    metadata: { a: 'b' },
    reasoning: { effort: null },
  };
  expect(read(defaults)).toMatchObject({ unsupported: [], json: null, reasoning: null });
});

test('readPrompt reads the bytes, URL, or id of a file', () => {
  const file = (fields: object) => ({ type: 'input_file', ...fields });
  const content = [
    file({ file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' }),
    file({ file_url: 'https://a.example/b.pdf' }),
    file({ file_id: 'file-1' }),
    file({ file_data: 'AAAA' }),
  ];
  const { turns, unsupported } = read({ input: [{ role: 'user', content }] });
  expect(turns[0]?.parts).toMatchObject([
    { kind: 'document', source: { url: 'data:application/pdf;base64,AAAA' }, name: 'a.pdf' },
    { kind: 'document', source: { url: 'https://a.example/b.pdf' } },
    { kind: 'document', source: { fileId: 'file-1' } },
    { kind: 'document', source: { url: 'data:application/pdf;base64,AAAA' } },
  ]);
  expect(unsupported).toEqual([]);
});

test("readPrompt reads a top-level cache breakpoint as the prompt's own", () => {
  const mark = { type: 'ephemeral' };
  const { cacheControl, unsupported } = read({ cache_control: mark, top_a: 1 });
  expect([cacheControl, unsupported]).toEqual([mark, ['top_a']]);
});

test('readPrompt reports reasoning options that only OpenAI has', () => {
  const reasoning = { effort: 'low', mode: 'pro', context: 'all_turns', generate_summary: null };
  expect(read({ reasoning }).unsupported).toEqual(['reasoning.mode', 'reasoning.context']);
  expect(read({ reasoning: { mode: 'standard', context: 'auto' } }).unsupported).toEqual([]);
});

const assistantMessage = (text: string) => ({
  ...{ type: 'message', role: 'assistant' },
  content: [{ type: 'output_text', text }],
});
const call = { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' };
const result = { type: 'function_call_output', call_id: 'a', output: 'x' };
const reasoning = {
  ...{ type: 'reasoning', id: 'rs_1', encrypted_content: 'c2ln' },
  summary: [{ type: 'summary_text', text: 'Hm.' }],
};

/** Returns the roles and contents of the chat messages for the same input. */
function chatMessages(...input: object[]) {
  const { body } = writeBody(readPrompt({ body: { model: 'a/b', input }, source: null }));
  return body.messages.map(({ role, content }) => [role, content]);
}

test('readPrompt keeps consecutive assistant messages separate', () => {
  expect(
    chatMessages(assistantMessage('One.'), assistantMessage('Two.'), {
      role: 'user',
      content: 'Hi',
    }),
  ).toEqual([
    ['assistant', 'One.'],
    ['assistant', 'Two.'],
    ['user', 'Hi'],
  ]);
});

test('readPrompt attaches reasoning between two messages to the second message', () => {
  const { turns } = readPrompt({
    body: { model: 'a/b', input: [assistantMessage('One.'), reasoning, assistantMessage('Two.')] },
    source: null,
  });
  expect(turns.map(({ parts }) => parts.map(({ kind }) => kind))).toEqual([
    ['text'],
    ['reasoning', 'text'],
  ]);
});

test('readPrompt keeps content before and after calls in their turn, before the results', () => {
  expect(chatMessages(assistantMessage('One.'), call, assistantMessage('Two.'), result)).toEqual([
    ['assistant', 'One.Two.'],
    ['tool', 'x'],
  ]);
});

test.each(['compaction', 'compaction_summary', 'context_compaction', 'compaction_trigger'])(
  'readPrompt reports an item of the type %s as unsupported',
  (type) => {
    const body = { model: 'a/b', input: [{ role: 'user', content: 'Hi' }, { type }] };
    expect(readPrompt({ body, source: null }).unsupportedPart).toEqual({ param: 'input[1]', type });
  },
);
