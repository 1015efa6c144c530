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

function read(body: object) {
  const text = JSON.stringify({ model: 'a/b', input: [question], tools: [search], ...body });
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
