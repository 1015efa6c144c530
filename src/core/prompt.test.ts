import { describe, expect, test } from 'bun:test';
import { makePrompt } from '../../tests/support/prompts.ts';
import type { Turn } from './prompt.ts';
import { promptTextBytes } from './prompt.ts';

const bytesOf = (...turns: Turn[]) => promptTextBytes(makePrompt({ turns }));
const text = (content: string) => ({ kind: 'text', text: content }) as const;

describe('promptTextBytes', () => {
  test('counts the text of all roles', () => {
    const turns: Turn[] = [
      { role: 'system', parts: [text('Be kind.')] },
      { role: 'user', parts: [text('hi'), text('世界')] },
      { role: 'assistant', parts: [{ kind: 'refusal', text: 'No.' }] },
    ];
    expect(bytesOf(...turns)).toBe(8 + (2 + 6) + 3);
  });

  test('counts tool calls and tool results', () => {
    const call = { kind: 'tool_call', id: 'call_123456', name: 'look', arguments: '{"at":1}' };
    const result = { kind: 'tool_result', callId: 'call_123456', isError: false } as const;
    const turns: Turn[] = [
      { role: 'assistant', parts: [{ ...call, kind: 'tool_call' }] },
      { role: 'user', parts: [{ ...result, parts: [text('found'), text('it')] }] },
    ];
    expect(bytesOf(...turns)).toBe(4 + 8 + 5 + 2);
  });

  test('counts tool definitions and the JSON schema of the answer', () => {
    const tools = [
      { name: 'look', description: 'Looks.', parameters: { type: 'object' } },
      { name: 'go', parameters: null },
    ];
    // {"type":"object"} has 17 characters.
    expect(promptTextBytes(makePrompt({ turns: [], tools }))).toBe(4 + 6 + 17 + 2);
    const json = { schema: { type: 'object' }, name: 'response' };
    expect(promptTextBytes(makePrompt({ turns: [], json }))).toBe(17);
  });

  test('counts 85 tokens per image of any size and 10 per second of MP3', () => {
    const image = { kind: 'image', url: `data:image/png;base64,${'A'.repeat(10_000)}` } as const;
    expect(bytesOf({ role: 'user', parts: [image, image] })).toBe(2 * 85 * 4);
    const audio = { kind: 'audio', data: 'A'.repeat(20_000), format: 'mp3' } as const;
    expect(bytesOf({ role: 'user', parts: [audio] })).toBe(10 * 4);
  });

  test('counts an eighth of a base64 file and all of a text file', () => {
    const document = (source: { url: string } | { text: string } | { fileId: string }) =>
      bytesOf({ role: 'user', parts: [{ kind: 'document', source }] });
    expect(document({ url: 'data:,'.padEnd(8_000, 'A') })).toBe(1_000);
    expect(document({ url: 'DATA:,'.padEnd(8_000, 'A') })).toBe(1_000);
    expect(document({ text: 'Once upon' })).toBe(9);
  });

  test('returns at least 1 for remote files of unknown length', () => {
    const [url, fileId] = [{ url: 'https://example.com/a.pdf' }, { fileId: 'file-1' }];
    for (const source of [url, fileId]) {
      expect(bytesOf({ role: 'user', parts: [{ kind: 'document', source }] })).toBe(1);
    }
  });
});
