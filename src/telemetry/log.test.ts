import { expect, test } from 'bun:test';
import { logLinesMax } from '../core/bounds.ts';
import { createLog, reason } from './log.ts';

test("reason returns the error's message and its causes", () => {
  const cause = new Error('no route', { cause: new Error('cable') });
  expect(reason(new Error('no store', { cause }))).toBe('no store (no route (cable))');
  expect(reason(new Error('alone'))).toBe('alone');
  expect(reason('a string')).toBe('a string');
  expect(reason(undefined)).toBe('undefined');
});

test('a log line is one JSON object with a level, an event, and fields', () => {
  const lines: string[] = [];
  const log = createLog((line) => lines.push(line));
  log.info('started');
  log.warn('odd', { path: '/a\n{"level":"error"}' });
  log.error('failed', { count: 2, disconnected: undefined });
  expect(lines.every((line) => line.indexOf('\n') === line.length - 1)).toBe(true);
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { time: expect.any(String), level: 'info', event: 'started' },
    { time: expect.any(String), level: 'warn', event: 'odd', path: '/a\n{"level":"error"}' },
    { time: expect.any(String), level: 'error', event: 'failed', count: 2 },
  ]);
});

test('a log without a reader keeps a limited number of lines and reports dropped ones', async () => {
  const lines: string[] = [];
  const stuck = Promise.withResolvers<void>();
  const log = createLog((line) => {
    lines.push(line);
    return stuck.promise;
  });
  for (let index = 0; index < logLinesMax + 7; index += 1)
    log.error('request_failed', { at: index });
  expect(lines.length).toBe(logLinesMax);
  stuck.resolve();
  await Bun.sleep(0);
  const missing = { level: 'warn', event: 'log_lines_dropped', lines: 7 };
  expect(lines.slice(logLinesMax).map((line) => JSON.parse(line))).toMatchObject([missing]);
  log.info('started');
  expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ event: 'started' });
});

test('a log with a broken pipe keeps writing', async () => {
  let tried = 0;
  const log = createLog(() => {
    tried += 1;
    return Promise.reject(new Error('broken pipe'));
  });
  for (let index = 0; index < logLinesMax; index += 1) log.warn('redis_unreachable');
  await Bun.sleep(0);
  log.info('redis_recovered');
  expect(tried).toBe(logLinesMax + 1);
});
