import { describe, expect, test } from 'bun:test';
import { identity } from '../../../../tests/support/reply-identity.ts';
import { checkResponsesStream } from '../../../../tests/support/stream-checks.ts';
import type { AnswerSink } from '../../../core/answer.ts';
import { noUsage } from '../../../core/usage.ts';
import { responsesClientRequest } from '../client-request.ts';
import { readPrompt } from './prompt.ts';
import { readResponsesRequest } from './request.ts';
import { echoOf } from './response-object.ts';
import { responsesClient } from './response-writers.ts';
import { ClientTools } from './tools.ts';

/** Codex sends its tools to OpenAI's newest models as an item of the input. */
const added = {
  type: 'additional_tools',
  role: 'developer',
  tools: [
    {
      type: 'namespace',
      name: 'functions',
      tools: [
        { type: 'custom', name: 'exec', description: 'Runs code.' },
        { type: 'function', name: 'wait', parameters: { type: 'object' } },
      ],
    },
    { type: 'web_search' },
  ],
};

function read(tools: object) {
  const item = { ...added, ...tools };
  const body = { model: 'a/b', input: [item, { role: 'user', content: 'Hi' }] };
  const text = JSON.stringify(body);
  const source = { text, bytes: new TextEncoder().encode(text) };
  return readResponsesRequest(JSON.parse(text), source);
}

describe('tools added by the input', () => {
  test("are merged with the request's tools and add no turn", () => {
    const request = read({});
    const { tools, turns, unsupported } = readPrompt(request);
    expect(tools.map(({ name }) => name)).toEqual(['functions__exec', 'functions__wait']);
    expect(turns.map(({ role }) => role)).toEqual(['user']);
    expect(unsupported).toEqual(['input[0].tools[1]']);
    expect(request.request.needs.tools).toBe(true);
  });

  test('are dropped if a namespace is nested in another', () => {
    const inner = { type: 'namespace', name: 'inner', tools: [{ type: 'custom', name: 'exec' }] };
    const tools = [{ type: 'namespace', name: 'outer', tools: [inner] }];
    const prompt = readPrompt(read({ tools }));
    expect(prompt.tools).toEqual([]);
    expect(prompt.unsupported).toEqual(['input[0].tools[0].tools[0]']);
  });

  test('are called by the name and namespace that the client declared', () => {
    const clientTools = new ClientTools(read({}).body);
    const exec = { type: 'custom', name: 'exec', namespace: 'functions' } as const;
    expect(clientTools.clientToolFor('functions__exec')).toEqual(exec);
  });

  test('fix the stream mode of the answer', () => {
    const isStreamModeFixed = (fields: object) =>
      responsesClientRequest(read(fields)).isStreamModeFixed;
    expect(isStreamModeFixed({})).toBe(true);
    const tools = [{ type: 'function', name: 'wait', parameters: { type: 'object' } }];
    expect(isStreamModeFixed({ tools })).toBe(false);
  });

  test('are validated at their paths', () => {
    const tools = [{ type: 'function', name: 'no spaces' }];
    expect(() => read({ tools })).toThrow(/^input\[0\]\.tools\[0\]\.name must be a tool name/);
    expect(() => read({ tools: 'exec' })).toThrow(/^input\[0\]\.tools must be/);
    expect(() => read({ tools: undefined })).toThrow(/^input\[0\]\.tools is required/);
  });
});

/** Codex lets the model search for the tools of its MCP servers, and runs the search itself. */
const parameters = { type: 'object', properties: { query: { type: 'string' } } };
const search = { type: 'tool_search', execution: 'client', description: 'Finds.', parameters };
const docs = {
  type: 'namespace',
  name: 'mcp__docs',
  tools: [{ type: 'function', name: 'read', parameters: { type: 'object' }, defer_loading: true }],
};
const searchCall = { type: 'tool_search_call', execution: 'client', status: 'completed' };
const call = { ...searchCall, call_id: 'call_1', arguments: { query: 'docs' } };
const searchOutput = (id: string, ...tools: object[]) => ({
  ...{ type: 'tool_search_output', execution: 'client', status: 'completed' },
  call_id: id,
  tools,
});
const question = { role: 'user', content: 'Hi' };

function readSearchPrompt(body: object, write = (text: string) => text) {
  const request = { model: 'a/b', input: [question], tools: [search], ...body };
  const text = write(JSON.stringify(request));
  const source = { text, bytes: new TextEncoder().encode(text) };
  return readResponsesRequest(JSON.parse(text), source);
}

describe('a tool search run by the client', () => {
  test('is sent upstream as a function', () => {
    const request = readSearchPrompt({});
    const { tools, unsupported } = readPrompt(request);
    expect(tools).toEqual([{ name: 'tool_search', description: 'Finds.', parameters }]);
    expect(unsupported).toEqual([]);
    expect(request.request.needs.tools).toBe(true);
  });

  test('is read as a tool call, and each tool it found is added once', () => {
    const secondCall = { ...call, call_id: 'call_2' };
    const input = [
      question,
      call,
      searchOutput('call_1', docs),
      secondCall,
      searchOutput('call_2', docs),
    ];
    const { tools, turns, unsupported } = readPrompt(readSearchPrompt({ input }));
    expect(tools.map(({ name }) => name)).toEqual(['tool_search', 'mcp__docs__read']);
    const callPart = (id: string) => [
      { kind: 'tool_call', id, name: 'tool_search', arguments: '{"query":"docs"}' },
    ];
    const resultPart = (callId: string) => [
      {
        kind: 'tool_result',
        callId,
        parts: [{ kind: 'text', text: 'Found: mcp__docs' }],
        isError: false,
      },
    ];
    expect(turns.slice(1).map(({ parts }) => parts)).toEqual([
      callPart('call_1'),
      resultPart('call_1'),
      callPart('call_2'),
      resultPart('call_2'),
    ] as never);
    expect(unsupported).toEqual(['tools.defer_loading']);
  });

  test.each([
    ['{"query":"docs"}', '{"query":"docs"}'],
    [['docs'], '["docs"]'],
    [null, '{}'],
  ])('accepts any arguments: %j', (argumentsValue, json) => {
    const input = [question, { ...call, arguments: argumentsValue }, searchOutput('call_1', docs)];
    const { turns, unsupported } = readPrompt(readSearchPrompt({ input }));
    expect(turns[1]?.parts).toMatchObject([{ kind: 'tool_call', arguments: json }]);
    expect(unsupported).toEqual(['tools.defer_loading']);
  });

  test('accepts found tools without names', () => {
    const foundTools = [{ type: 'mcp', name: { toString: 1, valueOf: 1 } }, { type: 'mcp' }, docs];
    const { turns } = readPrompt(
      readSearchPrompt({ input: [question, call, searchOutput('call_1', ...foundTools)] }),
    );
    expect(turns[2]?.parts).toMatchObject([{ parts: [{ text: 'Found: mcp__docs' }] }]);
  });

  test('preserves long numbers in the schemas it finds', () => {
    const maximum = '9223372036854775807';
    const parameters = { type: 'object', properties: { id: { maximum: 'MAXIMUM' } } };
    const input = [
      question,
      call,
      searchOutput('call_1', { type: 'function', name: 'a', parameters }),
    ];
    const { tools } = readPrompt(
      readSearchPrompt({ input }, (text) => text.replace('"MAXIMUM"', maximum)),
    );
    expect(JSON.stringify(tools)).toContain(`{"maximum":${maximum}}`);
  });

  test.each([
    [{ ...call, call_id: null }, 'input[1].call_id'],
    [{ ...searchOutput('call_1'), tools: docs }, 'input[1].tools'],
    [searchOutput('', docs), 'input[1].call_id'],
  ])('is rejected if its call and output cannot match: %j', (item, param) => {
    expect(() => readSearchPrompt({ input: [question, item] })).toThrow(
      expect.objectContaining({ param }),
    );
    const runByOpenAi = { ...item, execution: 'server' };
    expect(() => readSearchPrompt({ input: [question, runByOpenAi] })).not.toThrow();
  });

  test.each([
    [{ ...search, execution: 'server' }, 'tools[0]'],
    [{ type: 'tool_search' }, 'tools[0]'],
  ])('is dropped if OpenAI would run it: %j', (tool, name) => {
    const prompt = readPrompt(readSearchPrompt({ tools: [tool] }));
    expect([prompt.tools, prompt.unsupported]).toEqual([[], [name]]);
  });

  test('is returned to the client as a tool search, followed by calls of found tools', () => {
    const { body } = readSearchPrompt({ input: [question, call, searchOutput('call_1', docs)] });
    const client = responsesClient(body, echoOf(body));
    const emit = (sink: AnswerSink) => {
      sink.toolCall(0, 'call_2', 'tool_search');
      sink.toolArguments(0, '{"query":');
      sink.toolArguments(0, '"mail"}');
      sink.toolCall(1, 'call_3', 'mcp__docs__read');
      sink.toolArguments(1, '{}');
      sink.finish('tool_calls', null);
    };
    const settled = { usage: noUsage, costCredits: 1 };
    const stream = client.writeStream(identity);
    emit(stream);
    const { response } = checkResponsesStream(stream.take() + stream.close(settled));
    expect(response.output).toMatchObject([
      { ...searchCall, call_id: 'call_2', arguments: { query: 'mail' } },
      { type: 'function_call', call_id: 'call_3', name: 'read', namespace: 'mcp__docs' },
    ]);
    const reply = client.writeReply(identity);
    emit(reply);
    expect(JSON.parse(reply.write(settled)).output).toEqual(response.output);
  });
});
