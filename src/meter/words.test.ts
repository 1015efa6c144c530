import { describe, expect, test } from 'bun:test';
import type { Dialogue, Turn } from '../core/dialogue.ts';
import { wordBytes } from './words.ts';

const nothing: Dialogue = {
  turns: [],
  tools: [],
  toolChoice: null,
  parallelTools: null,
  outputTokensMax: null,
  stop: [],
  json: null,
  reasoning: null,
  sampling: {},
  user: null,
  stream: false,
  choices: 1,
  foreign: [],
};

const bytesOf = (...turns: Turn[]) => wordBytes({ ...nothing, turns });
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
    expect(wordBytes({ ...nothing, tools })).toBe(4 + 6 + 17 + 2);
    const json = { schema: { type: 'object' }, name: 'response' };
    expect(wordBytes({ ...nothing, json })).toBe(17);
  });

  test('are not the bytes of pictures and sounds', () => {
    const data = 'A'.repeat(10_000);
    const parts = [
      { kind: 'image', url: `data:image/png;base64,${data}` },
      { kind: 'audio', data, format: 'wav' },
    ] as const;
    expect(bytesOf({ role: 'user', parts })).toBe(0);
  });

  test('are an eighth of a file, and all of one that is text', () => {
    const document = (source: { url: string } | { text: string } | { fileId: string }) =>
      bytesOf({ role: 'user', parts: [{ kind: 'document', source }] });
    expect(document({ url: 'data:,'.padEnd(8_000, 'A') })).toBe(1_000);
    expect(document({ text: 'Once upon' })).toBe(9);
    expect(document({ url: 'https://example.com/a.pdf' })).toBe(0);
    expect(document({ fileId: 'file-1' })).toBe(0);
  });
});
