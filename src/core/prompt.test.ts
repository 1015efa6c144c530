import { describe, expect, test } from 'bun:test';
import { question } from '../../tests/support/question.ts';
import type { Turn } from './prompt.ts';
import { promptTextBytes } from './prompt.ts';

const bytesOf = (...turns: Turn[]) => promptTextBytes(question({ turns }));
const text = (said: string) => ({ kind: 'text', text: said }) as const;

describe('the words of a prompt', () => {
  test('are what is said, whoever says it', () => {
    const turns: Turn[] = [
      { role: 'system', parts: [text('Be kind.')] },
      { role: 'user', parts: [text('hi'), text('世界')] },
      { role: 'assistant', parts: [{ kind: 'refusal', text: 'No.' }] },
    ];
    expect(bytesOf(...turns)).toBe(8 + (2 + 6) + 3);
  });

  test('are calls of tools and what came of them', () => {
    const call = { kind: 'tool_call', id: 'call_123456', name: 'look', arguments: '{"at":1}' };
    const result = { kind: 'tool_result', callId: 'call_123456', isError: false } as const;
    const turns: Turn[] = [
      { role: 'assistant', parts: [{ ...call, kind: 'tool_call' }] },
      { role: 'user', parts: [{ ...result, parts: [text('found'), text('it')] }] },
    ];
    expect(bytesOf(...turns)).toBe(4 + 8 + 5 + 2);
  });

  test('are tools, and the shape of the answer', () => {
    const tools = [
      { name: 'look', description: 'Looks.', parameters: { type: 'object' } },
      { name: 'go', parameters: null },
    ];
    // {"type":"object"} has 17 letters.
    expect(promptTextBytes(question({ turns: [], tools }))).toBe(4 + 6 + 17 + 2);
    const json = { schema: { type: 'object' }, name: 'response' };
    expect(promptTextBytes(question({ turns: [], json }))).toBe(17);
  });

  test('are 85 tokens for a picture, however large, and 10 for a second of MP3', () => {
    const picture = { kind: 'image', url: `data:image/png;base64,${'A'.repeat(10_000)}` } as const;
    expect(bytesOf({ role: 'user', parts: [picture, picture] })).toBe(2 * 85 * 4);
    const sound = { kind: 'audio', data: 'A'.repeat(20_000), format: 'mp3' } as const;
    expect(bytesOf({ role: 'user', parts: [sound] })).toBe(10 * 4);
  });

  test('are an eighth of a file, and all of one that is text', () => {
    const document = (source: { url: string } | { text: string } | { fileId: string }) =>
      bytesOf({ role: 'user', parts: [{ kind: 'document', source }] });
    expect(document({ url: 'data:,'.padEnd(8_000, 'A') })).toBe(1_000);
    expect(document({ url: 'DATA:,'.padEnd(8_000, 'A') })).toBe(1_000);
    expect(document({ text: 'Once upon' })).toBe(9);
  });

  test('are never none, though nobody here knows how long a file elsewhere is', () => {
    const [url, fileId] = [{ url: 'https://example.com/a.pdf' }, { fileId: 'file-1' }];
    for (const source of [url, fileId]) {
      expect(bytesOf({ role: 'user', parts: [{ kind: 'document', source }] })).toBe(1);
    }
  });
});
