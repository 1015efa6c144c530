/**
 * Replays recorded answers of every upstream dialect to every client, streamed and non-streaming.
 */
import { describe, expect, test } from 'bun:test';
import { noUsage } from '../../src/core/usage.ts';
import { readMessagesRequest } from '../../src/dialects/anthropic/client/request.ts';
import { anthropicClientRequest } from '../../src/dialects/anthropic/client-request.ts';
import { clients, messages, recorded, source } from '../support/chat-clients.ts';
import { readAnthropicAnswer, readForwardedResponse } from '../support/client-answers.ts';
import { makeTarget } from '../support/prompts.ts';
import { identity } from '../support/reply-identity.ts';
import { chatDialects, readExpectations, readFixture } from '../support/upstream-conformance.ts';

describe.each(chatDialects)('replayRecording for %s', (dialect) => {
  const cases = readExpectations(dialect).filter(({ expected }) => !expected.error);
  test('has recordings', () => expect(cases.length).toBeGreaterThan(1));
  for (const { path, expected } of cases) {
    for (const [name, client] of Object.entries(clients)) {
      for (const stream of [true, false]) {
        const form = stream ? 'a stream' : 'a complete response';
        test(`replays ${path} to ${name} as ${form}`, () => {
          const recording = recorded(
            dialect,
            expected.stream ? 'stream' : 'reply',
            readFixture(path),
          );
          const relay = client.operation(stream).replay(recording, identity);
          if (!relay) throw new Error("The recording can't be replayed.");
          const output = relay.write({ usage: relay.metrics.usage ?? noUsage, costCredits: 0 });
          const isForwarded = dialect === 'openai-responses' && name === 'responses';
          const seen =
            isForwarded && stream && expected.stream
              ? readForwardedResponse(output)
              : client.see(output, stream);
          const finish = name === 'anthropic' ? expected.anthropic : expected.openai;
          expect({ text: seen.text, reasoning: seen.reasoning, images: seen.images }).toEqual({
            text: expected.text,
            reasoning: expected.reasoning,
            images: expected.images ?? 0,
          });
          expect(seen.finish).toBe(
            'finish_reason' in finish ? finish.finish_reason : finish.stop_reason,
          );
          const calls = seen.calls.map((call) => ({
            name: call.name,
            arguments: JSON.parse(call.arguments) as object,
          }));
          expect(calls).toEqual([...expected.tool_calls]);
          expect(output).toContain('0123456789abcdef');
          expect(output).not.toMatch(/"(?:\w*_cost|cost_\w+|is_byok|billing|x_groq)":/);
        });
      }
    }
  }
});

test('a replay restores tool names that were shortened for the upstream', () => {
  const long = `mcp__${'a'.repeat(80)}`;
  const input_schema = { type: 'object' };
  const tools = [{ name: long, input_schema }];
  const [tool = ''] = sentTools(tools);
  expect(tool).toHaveLength(64);
  const call = { id: 'call_123456', type: 'function', function: { name: tool, arguments: '{}' } };
  const message = { role: 'assistant', content: null, tool_calls: [call] };
  const choices = [{ index: 0, message, finish_reason: 'tool_calls' }];
  const text = JSON.stringify({ id: 'x', object: 'chat.completion', model: 'm', choices });
  for (const stream of [false, true]) {
    const operation = clients.anthropic.operation(stream, { tools });
    const relay = operation.replay(recorded('openai', 'reply', text), identity);
    const output = relay?.write({ usage: noUsage, costCredits: 0 }) ?? '';
    expect(readAnthropicAnswer(output, stream).calls.map(({ name }) => name)).toEqual([long]);
  }
});

/** Returns the tool names that an OpenAI-style upstream receives. */
function sentTools(tools: readonly object[]): string[] {
  const body = { model: 'acme/large', messages, max_tokens: 100, tools };
  const request = readMessagesRequest(body, source(body));
  const adapter = anthropicClientRequest(request, new Headers()).adapterFor('openai');
  const sent = JSON.parse(String(adapter?.write(makeTarget()).body)) as {
    tools: { function: { name: string } }[];
  };
  return sent.tools.map((tool) => tool.function.name);
}
