import { expect, test } from 'bun:test';
import { readMessagesRequest } from './messages-request.ts';

function parametersOf(fields: object): readonly string[] {
  const messages = [{ role: 'user', content: 'Hi' }];
  const body = { model: 'a/b', max_tokens: 5, messages, ...fields };
  const text = JSON.stringify(body);
  return readMessagesRequest(body, { text, bytes: Buffer.from(text) }).ask.parameters;
}

const given = {
  thinking: { type: 'adaptive' },
  stop_sequences: ['x'],
  output_config: { format: { type: 'json_schema', schema: {} } },
  temperature: null,
  top_k: 5,
};

test('parameters have the names that the list of models gives them', () => {
  const names = parametersOf({ ...given, provider: { require_parameters: true } });
  const expected = ['max_tokens', 'reasoning', 'response_format', 'stop', 'top_k'];
  expect(names.toSorted()).toEqual(expected);
});

test('parameters are told only where providers have to take all of them', () => {
  expect(parametersOf(given)).toEqual([]);
});
