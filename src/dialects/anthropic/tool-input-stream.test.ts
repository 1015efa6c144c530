import { describe, expect, test } from 'bun:test';
import { identity } from '../../../tests/support/reply-identity.ts';
import { checkAnthropicStream } from '../../../tests/support/stream-checks.ts';
import type { FinishReason } from '../../core/answer.ts';
import { noUsage } from '../../core/usage.ts';
import { UnusableAnswer } from '../unusable-answer.ts';
import { AnthropicStreamWriter } from './client-stream.ts';

const closing = { usage: { ...noUsage, inputTokens: 3, outputTokens: 4 }, costCredits: 1 };

/** The inputs of the calls, each told in pieces of two characters. */
function inputsOf(...calls: readonly string[]): unknown[] {
  const writer = new AnthropicStreamWriter(identity, 9);
  for (const [call, json] of calls.entries()) {
    writer.toolCall(call, `call_${call}`, 'f');
    for (const piece of json.match(/.{1,2}/gs) ?? []) writer.toolArguments(call, piece);
  }
  writer.finish('tool_calls', null);
  const said = writer.take() + writer.close(closing);
  checkAnthropicStream(said);
  const inputs = calls.map(() => '');
  for (const [, at, json] of said.matchAll(
    /"index":(\d+),"delta":\{[^\n]*"partial_json":(.*)\}\}/g,
  )) {
    inputs[Number(at)] += JSON.parse(String(json));
  }
  return inputs.map((json) => JSON.parse(json || '{}'));
}

describe('the input of a tool, streamed to a client that parses it as an object', () => {
  test.each<[string, unknown]>([
    ['{"a":1}', { a: 1 }],
    ['  {"a":1}', { a: 1 }],
    ['[1,2]', { arguments: [1, 2] }],
    ['"Bern"', { arguments: 'Bern' }],
    ['city=Bern', { arguments: 'city=Bern' }],
    ['[INFO] copy a to b', { arguments: '[INFO] copy a to b' }],
    ['   ', {}],
    ['', {}],
  ])('%j', (json, input) => {
    expect(inputsOf(json)).toEqual([input]);
    expect(inputsOf(json, '{"b":2}', json)).toEqual([input, { b: 2 }, input]);
  });

  test('that is complete ends there: servers repeat inputs and close brackets twice', () => {
    for (const more of ['}', '{"a":1}', '\n```', ' ']) {
      expect(inputsOf(`{"a":1}${more}`)).toEqual([{ a: 1 }]);
      expect(inputsOf(`{"a":1}${more}`, '{"b":2}')).toEqual([{ a: 1 }, { b: 2 }]);
    }
  });

  const half = '{"a":1,"b":"x';

  test.each<[string, string[], FinishReason, boolean]>([
    ['breaks off', [half], 'tool_calls', true],
    ['breaks off before another call', [half, '{"b":2}'], 'stop', true],
    ['breaks off after another call', ['{"b":2}', half], 'tool_calls', true],
    ['waits for one without arguments', ['', half], 'tool_calls', true],
    ['is complete', ['', '{"b":2}', 'city=Bern', '{"b":2}}'], 'tool_calls', false],
    ['breaks off at the limit of tokens, as the stop reason says', [half], 'length', false],
  ])('is half an input if it %s', (_, calls, reason, isHalf) => {
    const writer = new AnthropicStreamWriter(identity, 9);
    for (const [call, json] of calls.entries()) {
      writer.toolCall(call, `call_${call}`, 'f');
      writer.toolArguments(call, json);
    }
    writer.finish(reason, null);
    expect(writer.isHalf).toBe(isHalf);
  });

  test('is half an input until its rest comes, also behind a finish reason', () => {
    const writer = new AnthropicStreamWriter(identity, 9);
    writer.toolCall(0, 'call_0', 'f');
    writer.toolArguments(0, half);
    writer.finish('tool_calls', null);
    writer.toolArguments(0, '"}');
    expect(writer.isHalf).toBe(false);
  });

  /** A call that got this input before a text ended its block. */
  const endedAfter = (json: string) => {
    const writer = new AnthropicStreamWriter(identity, 9);
    writer.toolCall(0, 'call_0', 'f');
    writer.toolArguments(0, json);
    writer.text('Hi');
    return (more: string) => writer.toolArguments(0, more);
  };

  test('that continues after its block fails the answer: no tool is run with half an input', () => {
    expect(() => endedAfter('{"path":"a')('bc"}')).toThrow(UnusableAnswer);
    expect(() => endedAfter('{"path":"abc"')('}')).toThrow(UnusableAnswer);
    expect(() => endedAfter('')('{"path":"abc"}')).toThrow(UnusableAnswer);
  });

  test('that is complete at the end of its block may be repeated after it', () => {
    endedAfter('{"path":"abc"}')('{"path":"abc"}');
    for (const nothing of ['', ' ', '{}', '{ }']) endedAfter('')(nothing);
  });
});
