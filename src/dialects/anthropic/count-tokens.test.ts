import { describe, expect, test } from 'bun:test';
import { countable } from './count-tokens.ts';

/** What of a message's blocks is counted, after the four tokens around every message. */
function counted(...content: object[]): unknown[] {
  const body = { model: 'a/b', messages: [{ role: 'user', content }] };
  const [around, ...inside] = countable(body as never);
  expect(around).toEqual({ tokens: 4 });
  return inside;
}

const document = (source: object) => ({ type: 'document', source });

describe('a document counts', () => {
  test('by its words', () => {
    const source = { type: 'text', media_type: 'text/plain', data: 'All of it.' };
    expect(counted(document(source))).toEqual(['All of it.']);
  });

  // 50 KB are 66,667 characters of base64 and some 2,000 tokens.
  test('by its size, where it is a PDF', () => {
    const source = { type: 'base64', media_type: 'application/pdf', data: 'A'.repeat(64_001) };
    expect(counted(document(source))).toEqual([{ tokens: 2_001 }]);
  });

  test('by what is in it, words and pictures', () => {
    const image = { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } };
    const blocks = { type: 'content', content: [{ type: 'text', text: 'one' }, image] };
    expect(counted(document(blocks))).toEqual(['one', { tokens: 1_600 }]);
    expect(counted(document({ type: 'content', content: 'two' }))).toEqual(['two']);
  });

  test('for nothing where it is elsewhere', () => {
    expect(counted(document({ type: 'url', url: 'https://a.example/b.pdf' }))).toEqual([]);
    expect(counted(document({ type: 'file', file_id: 'file_1' }))).toEqual([]);
  });
});

test('a result of a tool counts by what is in it, a call by its name and its input', () => {
  const result = (content: unknown) => ({ type: 'tool_result', tool_use_id: 'a', content });
  expect(counted(result('four'))).toEqual(['four']);
  expect(counted(result([{ type: 'text', text: 'five' }]))).toEqual(['five']);
  expect(counted({ type: 'tool_use', id: 'a', name: 'add', input: { a: 1 } })).toEqual([
    'add {"a":1}',
  ]);
});

test('a picture that a model made does not count', () => {
  const image = { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } };
  const content = [{ type: 'text', text: 'Here.' }, image];
  const body = { model: 'a/b', messages: [{ role: 'assistant', content }] };
  expect([...countable(body as never)]).toEqual([{ tokens: 4 }, 'Here.']);
});

test('thoughts of earlier turns do not count', () => {
  expect(counted({ type: 'thinking', thinking: 'Hm.', signature: 's' })).toEqual([]);
});

// A PNG of 750 by 10: ten tokens at 750 pixels each.
test('a picture counts by its size', () => {
  const header = Buffer.alloc(33);
  header.write('\x89PNG\r\n\x1a\n', 0, 'latin1');
  header.writeUInt32BE(13, 8);
  header.write('IHDR', 12, 'latin1');
  header.writeUInt32BE(750, 16);
  header.writeUInt32BE(10, 20);
  const source = { type: 'base64', media_type: 'image/png', data: header.toString('base64') };
  expect(counted({ type: 'image', source })).toEqual([{ tokens: 10 }]);
});
