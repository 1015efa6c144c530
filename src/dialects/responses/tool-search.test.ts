/** Codex has the model search for the tools of its MCP servers, and searches itself. */
import { describe, expect, test } from 'bun:test';
import { identity } from '../../../tests/support/reply-identity.ts';
import { checkResponsesStream } from '../../../tests/support/stream-checks.ts';
import type { AnswerListener } from '../../core/answer.ts';
import { noUsage } from '../../core/usage.ts';
import { responsesClient } from './client.ts';
import { readDialogue } from './dialogue.ts';
import { readResponsesRequest } from './request.ts';
import { echoOf } from './response-object.ts';

const parameters = { type: 'object', properties: { query: { type: 'string' } } };
const search = { type: 'tool_search', execution: 'client', description: 'Finds.', parameters };
const docs = {
  type: 'namespace',
  name: 'mcp__docs',
  tools: [{ type: 'function', name: 'read', parameters: { type: 'object' }, defer_loading: true }],
};
const asked = { type: 'tool_search_call', execution: 'client', status: 'completed' };
const call = { ...asked, call_id: 'call_1', arguments: { query: 'docs' } };
const found = (id: string, ...tools: object[]) => ({
  ...{ type: 'tool_search_output', execution: 'client', status: 'completed' },
  call_id: id,
  tools,
});
const question = { role: 'user', content: 'Hi' };

function read(body: object, write = (text: string) => text) {
  const asks = { model: 'a/b', input: [question], tools: [search], ...body };
  const text = write(JSON.stringify(asks));
  const source = { text, bytes: new TextEncoder().encode(text) };
  return readResponsesRequest(JSON.parse(text), source);
}

describe('a search for tools that the client does', () => {
  test('is a function to the model', () => {
    const request = read({});
    const { tools, foreign } = readDialogue(request);
    expect(tools).toEqual([{ name: 'tool_search', description: 'Finds.', parameters }]);
    expect(foreign).toEqual([]);
    expect(request.ask.needs.tools).toBe(true);
  });

  test('was called like one, and what it found can be called from then on, once', () => {
    const again = { ...call, call_id: 'call_2' };
    const input = [question, call, found('call_1', docs), again, found('call_2', docs)];
    const { tools, turns, foreign } = readDialogue(read({ input }));
    expect(tools.map(({ name }) => name)).toEqual(['tool_search', 'mcp__docs__read']);
    const called = (id: string) => [
      { kind: 'tool_call', id, name: 'tool_search', arguments: '{"query":"docs"}' },
    ];
    const told = (callId: string) => [
      {
        kind: 'tool_result',
        callId,
        parts: [{ kind: 'text', text: 'Found: mcp__docs' }],
        isError: false,
      },
    ];
    expect(turns.slice(1).map(({ parts }) => parts)).toEqual([
      called('call_1'),
      told('call_1'),
      called('call_2'),
      told('call_2'),
    ] as never);
    expect(foreign).toEqual(['tools.defer_loading']);
  });

  test.each([
    ['{"query":"docs"}', '{"query":"docs"}'],
    [['docs'], '["docs"]'],
    [null, '{}'],
  ])('may have been called with anything: %j', (given, json) => {
    const input = [question, { ...call, arguments: given }, found('call_1', docs)];
    const { turns, foreign } = readDialogue(read({ input }));
    expect(turns[1]?.parts).toMatchObject([{ kind: 'tool_call', arguments: json }]);
    expect(foreign).toEqual(['tools.defer_loading']);
  });

  test('may have found what has no name', () => {
    const odd = [{ type: 'mcp', name: { toString: 1, valueOf: 1 } }, { type: 'mcp' }, docs];
    const { turns } = readDialogue(read({ input: [question, call, found('call_1', ...odd)] }));
    expect(turns[2]?.parts).toMatchObject([{ parts: [{ text: 'Found: mcp__docs' }] }]);
  });

  test('finds tools whose schemas go on to the last digit', () => {
    const most = '9223372036854775807';
    const parameters = { type: 'object', properties: { id: { maximum: 'most' } } };
    const input = [question, call, found('call_1', { type: 'function', name: 'a', parameters })];
    const { tools } = readDialogue(read({ input }, (text) => text.replace('"most"', most)));
    expect(JSON.stringify(tools)).toContain(`{"maximum":${most}}`);
  });

  test.each([
    [{ ...call, call_id: null }, 'input[1].call_id'],
    [{ ...found('call_1'), tools: docs }, 'input[1].tools'],
    [found('', docs), 'input[1].call_id'],
  ])('is refused where a call and its answer could not meet: %j', (item, param) => {
    expect(() => read({ input: [question, item] })).toThrow(expect.objectContaining({ param }));
    const theirs = { ...item, execution: 'server' };
    expect(() => read({ input: [question, theirs] })).not.toThrow();
  });

  test.each([
    [{ ...search, execution: 'server' }, 'tools[0]'],
    [{ type: 'tool_search' }, 'tools[0]'],
  ])('is left out where OpenAI would do it: %j', (tool, name) => {
    const dialogue = readDialogue(read({ tools: [tool] }));
    expect([dialogue.tools, dialogue.foreign]).toEqual([[], [name]]);
  });

  test('is called back as one, and so is what it found', () => {
    const { body } = read({ input: [question, call, found('call_1', docs)] });
    const client = responsesClient(body, echoOf(body));
    const tell = (to: AnswerListener) => {
      to.toolCall(0, 'call_2', 'tool_search');
      to.toolArguments(0, '{"query":');
      to.toolArguments(0, '"mail"}');
      to.toolCall(1, 'call_3', 'mcp__docs__read');
      to.toolArguments(1, '{}');
      to.finish('tool_calls', null);
    };
    const closing = { usage: noUsage, costCredits: 1 };
    const stream = client.writeStream(identity);
    tell(stream);
    const { response } = checkResponsesStream(stream.take() + stream.close(closing));
    expect(response.output).toMatchObject([
      { ...asked, call_id: 'call_2', arguments: { query: 'mail' } },
      { type: 'function_call', call_id: 'call_3', name: 'read', namespace: 'mcp__docs' },
    ]);
    const reply = client.writeReply(identity);
    tell(reply);
    expect(JSON.parse(reply.write(closing)).output).toEqual(response.output);
  });
});
