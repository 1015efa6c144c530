import { expect, test } from 'bun:test';
import { createLog, reason } from './log.ts';

test('a reason is what was thrown says, with its causes behind it', () => {
  const cause = new Error('no route', { cause: new Error('cable') });
  expect(reason(new Error('no store', { cause }))).toBe('no store (no route (cable))');
  expect(reason(new Error('alone'))).toBe('alone');
  expect(reason('a text')).toBe('a text');
  expect(reason(undefined)).toBe('undefined');
});

test('a line is one JSON object with its level, event and fields, whatever they hold', () => {
  const lines: string[] = [];
  const log = createLog((line) => lines.push(line));
  log.info('started');
  log.warn('odd', { path: '/a\n{"level":"error"}' });
  log.error('failed', { count: 2, gone: undefined });
  expect(lines.every((line) => line.indexOf('\n') === line.length - 1)).toBe(true);
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { time: expect.any(String), level: 'info', event: 'started' },
    { time: expect.any(String), level: 'warn', event: 'odd', path: '/a\n{"level":"error"}' },
    { time: expect.any(String), level: 'error', event: 'failed', count: 2 },
  ]);
});
