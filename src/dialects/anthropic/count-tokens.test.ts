import { describe, expect, test } from 'bun:test';
import { countable } from './count-tokens.ts';

/** Returns what is counted in a message's blocks, without the 4 tokens that every message adds. */
function counted(...content: object[]): unknown[] {
  const body = { model: 'a/b', messages: [{ role: 'user', content }] };
  const [overhead, ...inner] = countable(body as never);
  expect(overhead).toEqual({ tokens: 4 });
  return inner;
}

const document = (source: object) => ({ type: 'document', source });

describe('countable for documents', () => {
  test('counts the text of a text document', () => {
    const source = { type: 'text', media_type: 'text/plain', data: 'All of it.' };
    expect(counted(document(source))).toEqual(['All of it.']);
  });

  // 50 KB is 66,667 characters of base64 and about 2,000 tokens.
  test('estimates a PDF by its size', () => {
    const source = { type: 'base64', media_type: 'application/pdf', data: 'A'.repeat(64_001) };
    expect(counted(document(source))).toEqual([{ tokens: 2_001 }]);
  });

  test('counts the text and images of a content document', () => {
    const image = { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } };
    const blocks = { type: 'content', content: [{ type: 'text', text: 'one' }, image] };
    expect(counted(document(blocks))).toEqual(['one', { tokens: 1_600 }]);
    expect(counted(document({ type: 'content', content: 'two' }))).toEqual(['two']);
  });

  test("doesn't count documents referenced by URL or file ID", () => {
    expect(counted(document({ type: 'url', url: 'https://a.example/b.pdf' }))).toEqual([]);
    expect(counted(document({ type: 'file', file_id: 'file_1' }))).toEqual([]);
  });
});

test('countable counts the content of tool results, and the name and input of tool calls', () => {
  const result = (content: unknown) => ({ type: 'tool_result', tool_use_id: 'a', content });
  expect(counted(result('four'))).toEqual(['four']);
  expect(counted(result([{ type: 'text', text: 'five' }]))).toEqual(['five']);
  expect(counted({ type: 'tool_use', id: 'a', name: 'add', input: { a: 1 } })).toEqual([
    'add {"a":1}',
  ]);
});

test("countable doesn't count generated images", () => {
  const image = { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } };
  const content = [{ type: 'text', text: 'Here.' }, image];
  const body = { model: 'a/b', messages: [{ role: 'assistant', content }] };
  expect([...countable(body as never)]).toEqual([{ tokens: 4 }, 'Here.']);
});

test("countable doesn't count thinking blocks from earlier turns", () => {
  expect(counted({ type: 'thinking', thinking: 'Hm.', signature: 's' })).toEqual([]);
});

// A PNG of 750 by 10 pixels: 10 tokens of 750 pixels each.
test('countable counts an image by its size', () => {
  const header = Buffer.alloc(33);
  header.write('\x89PNG\r\n\x1a\n', 0, 'latin1');
  header.writeUInt32BE(13, 8);
  header.write('IHDR', 12, 'latin1');
  header.writeUInt32BE(750, 16);
  header.writeUInt32BE(10, 20);
  const source = { type: 'base64', media_type: 'image/png', data: header.toString('base64') };
  expect(counted({ type: 'image', source })).toEqual([{ tokens: 10 }]);
});
