import { expect, test } from 'bun:test';
import { logText } from './log-text.ts';

test('plain words stay as they are', () => {
  expect(logText('openai/gpt-5 “ünï” 日本 😀')).toBe('openai/gpt-5 “ünï” 日本 😀');
});

test('zero bytes and halves of characters become the sign for what cannot be shown', () => {
  expect(logText('a\0b\ud83dc')).toBe('a\ufffdb\ufffdc');
});

test('long words are cut, and a character at the cut is not halved', () => {
  expect(logText('x'.repeat(1_000))).toHaveLength(200);
  expect(logText(`${'x'.repeat(199)}😀`)).toBe(`${'x'.repeat(199)}\ufffd`);
});
