import { expect, test } from 'bun:test';
import type { ChatRequest } from './chat-request.ts';
import { withoutMarks } from './without-marks.ts';

const parameters = { type: 'object', properties: { cache_control: { type: 'integer' } } };

/** Marked wherever a client may put a mark; a parameter of that name is none. */
function marked(mark: object): ChatRequest['body'] {
  const called = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };
  return {
    model: 'acme/chat',
    messages: [
      { role: 'system', content: [{ type: 'text', text: 's', ...mark }] },
      { role: 'user', content: 'u', ...mark },
      { role: 'assistant', content: null, tool_calls: [{ ...called, ...mark }] },
      { role: 'tool', tool_call_id: 'a', content: 'r', ...mark },
    ],
    tools: [
      { type: 'function', function: { name: 'f', parameters }, ...mark },
      { type: 'function', function: { name: 'g', parameters, ...mark } },
    ],
    ...mark,
  } as unknown as ChatRequest['body'];
}

const mark = { cache_control: { type: 'ephemeral' } };

test('nothing that a client may mark keeps its mark', () => {
  const bare = marked({});
  expect(withoutMarks({ body: marked(mark), source: null })).toEqual({ body: bare, source: null });
  const untouched = { body: bare, source: null };
  expect(withoutMarks(untouched)).toBe(untouched);
});

test('numbers that JavaScript would round go on as they were written', () => {
  const text = JSON.stringify(marked(mark)).replaceAll(
    '"integer"',
    '"integer","maximum":9007199254740993',
  );
  const source = { text, bytes: new TextEncoder().encode(text) };
  const { body } = withoutMarks({ body: JSON.parse(text), source });
  expect(JSON.stringify(body)).toContain('"maximum":9007199254740993');
  expect(JSON.stringify(body)).not.toContain('ephemeral');
});
