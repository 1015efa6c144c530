import { expect, test } from 'bun:test';
import { identity } from '../../../../tests/support/reply-identity.ts';
import { noUsage } from '../../../core/usage.ts';
import { echoOf } from '../client/response-object.ts';
import { countedUsage, OutputMeter, writeResponse } from './reply.ts';

const echo = echoOf({ input: 'Hi' });

test('writeResponse writes an empty output if there is none', () => {
  const written = JSON.parse(writeResponse({ status: 'queued' }, identity, echo, null));
  expect(written).toMatchObject({ status: 'queued', model: identity.model, output: [] });
});

test.each([
  ['x_keyword_search', 'stop'],
  ['look', 'tool_calls'],
])('OutputMeter of a response that calls %s records the finish reason %s', (name, reason) => {
  const output = new OutputMeter();
  const call = { type: 'custom_tool_call', call_id: 'xs_call_1', name, input: '{"query":"a"}' };
  output.end({ status: 'completed', output: [call] });
  expect(output.metrics.finishReason).toBe(reason);
});

test('countedUsage replaces invalid usage with the settled usage', () => {
  const settled = { usage: { ...noUsage, inputTokens: 7, outputTokens: 2 }, costCredits: 3 };
  const response = { status: 'completed', usage: { input_tokens: 'many' }, output: [] };
  expect(countedUsage(response, undefined, settled)).toMatchObject({
    ...{ input_tokens: 7, output_tokens: 2, total_tokens: 9 },
    cost: 3,
  });
});

test.each([
  [{ a: 1 }, []],
  [[null, { type: 'message' }, true], [{ type: 'message' }]],
])('writeResponse normalizes the object name and the output: %j', (output, items) => {
  const written = JSON.parse(writeResponse({ output }, identity, echo, null));
  expect(written).toMatchObject({ object: 'response', output: items });
});
