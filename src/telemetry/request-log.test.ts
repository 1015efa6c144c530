import { expect, test } from 'bun:test';
import { endedRequest } from '../../tests/support/ended-request.ts';
import { within } from '../../tests/support/wait-until.ts';
import { RequestLog } from './request-log.ts';

test('RequestLog.flush waits for the current batch and writes later lines', async () => {
  const begun = Promise.withResolvers<void>();
  const emitted = Promise.withResolvers<void>();
  const written: string[] = [];
  const lines = new RequestLog(async (text) => {
    begun.resolve();
    await within(emitted.promise, 'the log line');
    written.push(...text.trim().split('\n'));
  });
  lines.ended(endedRequest({ requestId: 'first' }));
  await within(begun.promise, 'the request to begin');
  const early = lines.flush().then(() => written.length);
  lines.ended(endedRequest({ requestId: 'second' }));
  emitted.resolve();
  expect(await early).toBe(2);
  const ids = written.map((line) => JSON.parse(line).request_id);
  expect(ids).toEqual(['first', 'second']);
});

test('RequestLog writes the next batch after one that throws synchronously', async () => {
  const [tried, emitted] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  const lines = new RequestLog((text) => {
    tried.resolve();
    if (text.includes('lost')) throw new Error('broken pipe');
    emitted.resolve(text);
  });
  lines.ended(endedRequest({ requestId: 'lost' }));
  await within(tried.promise, 'the first write');
  lines.ended(endedRequest({ requestId: 'taken' }));
  expect(JSON.parse(await within(emitted.promise, 'the log line')).request_id).toBe('taken');
  expect(lines.families()[0]?.samples).toEqual([{ value: 1 }]);
});

test('RequestLog.flush waits for the current batch if no lines are pending', async () => {
  const begun = Promise.withResolvers<void>();
  let isWritten = false;
  const lines = new RequestLog(async () => {
    begun.resolve();
    await Bun.sleep(20);
    isWritten = true;
  });
  lines.ended(endedRequest());
  await within(begun.promise, 'the request to begin');
  await lines.flush();
  expect(isWritten).toBe(true);
});
