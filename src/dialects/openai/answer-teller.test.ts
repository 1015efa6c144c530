import { describe, expect, test } from 'bun:test';
import { ToldAnswer } from '../../../tests/support/told-answer.ts';
import { openAiUpstream } from './upstream.ts';

function told(message: object) {
  const answer = new ToldAnswer();
  const choices = [{ index: 0, message, finish_reason: 'stop' }];
  expect(openAiUpstream.readReply(JSON.stringify({ choices }), answer)).toBeUndefined();
  return answer;
}

const at = (url: unknown) => ({ type: 'image_url', image_url: { url } });

describe('a picture that the model made', () => {
  test('is told with its kind, after the words', () => {
    const images = [at('data:image/png;base64,iVBO'), at('data:image/svg+xml;base64,PHN2')];
    const answer = told({ role: 'assistant', content: 'Here.', images });
    expect(answer.images).toEqual([
      { mediaType: 'image/png', base64: 'iVBO' },
      { mediaType: 'image/svg+xml', base64: 'PHN2' },
    ]);
    expect(answer.order.slice(0, 2)).toEqual(['text', 'image']);
  });

  test.each([
    null,
    'data:image/png;base64,iVBO',
    { type: 'image_url' },
    at(7),
    at(''),
    at('file:///a.png'),
    at('data:image/png;base64,'),
  ])('is not found in %j', (image) => {
    const answer = told({ role: 'assistant', content: 'Here.', images: [image] });
    expect([answer.said, answer.images]).toEqual(['Here.', []]);
  });
});

test('a picture by its address becomes a link for clients that take only bytes', () => {
  const images = [at('https://example.com/a (1).png')];
  const answer = told({ role: 'assistant', content: 'Here:', images });
  expect(answer.said).toBe('Here:\n![image](https://example.com/a%20%281%29.png)\n');
  expect(answer.images).toEqual([]);
});

test('a whole answer without a finish reason is valid if it says anything', () => {
  const read = (message: object) => {
    const answer = new ToldAnswer();
    const choices = [{ index: 0, message, finish_reason: null }];
    return [openAiUpstream.readReply(JSON.stringify({ choices }), answer), answer.said];
  };
  expect(read({ role: 'assistant', content: 'Hi' })).toEqual([undefined, 'Hi']);
  expect(read({ role: 'assistant', content: '' })).toMatchObject([{ kind: 'malformed' }, '']);
});

test('a call that is sent as tool_calls and as function_call is one call', () => {
  const f = { name: 'look', arguments: '{"a":1}' };
  const call = { index: 0, id: 'call_a', type: 'function', function: f };
  const both = told({ role: 'assistant', content: null, tool_calls: [call], function_call: f });
  expect(both.calls).toMatchObject([{ id: 'call_a', ...f }]);
  const older = told({ role: 'assistant', content: null, function_call: f });
  expect(older.calls).toMatchObject([f]);
});

describe('thoughts that are told one by one', () => {
  const signed = (text: string, signature: string) => ({ type: 'reasoning.text', text, signature });
  const encrypted = { type: 'reasoning.encrypted', data: 'zzz' };
  const details = [encrypted, signed('One.', 'a'), signed('Two.', 'b')];
  const order = ['redacted', 'reasoning', 'signature', 'reasoning', 'signature', 'text', 'finish'];

  test.each([{ reasoning: 'One.Two.' }, {}])('keep each its proof: %j', (all) => {
    const answer = told({ role: 'assistant', content: 'Hi', ...all, reasoning_details: details });
    expect(answer.order).toEqual(order);
    expect([answer.thought, answer.signatures]).toEqual(['One.Two.', ['a', 'b']]);
  });

  test('are not told twice where details and reasoning differ', () => {
    const reasoning = 'One and two.';
    const answer = told({
      role: 'assistant',
      content: 'Hi',
      reasoning,
      reasoning_details: details,
    });
    expect([answer.thought, answer.signatures]).toEqual([reasoning, ['a', 'b']]);
  });
});
