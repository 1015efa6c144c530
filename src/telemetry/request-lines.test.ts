import { expect, test } from 'bun:test';
import { endedRequest } from '../../tests/support/ended-request.ts';
import { RequestLines } from './request-lines.ts';

test('a flush waits for the lines under way, and writes those behind them', async () => {
  const begun = Promise.withResolvers<void>();
  const taken = Promise.withResolvers<void>();
  const written: string[] = [];
  const lines = new RequestLines(async (text) => {
    begun.resolve();
    await taken.promise;
    written.push(...text.trim().split('\n'));
  });
  lines.ended(endedRequest({ requestId: 'first' }));
  await begun.promise;
  const early = lines.flush().then(() => written.length);
  lines.ended(endedRequest({ requestId: 'second' }));
  taken.resolve();
  expect(await early).toBe(2);
  const ids = written.map((line) => JSON.parse(line).request_id);
  expect(ids).toEqual(['first', 'second']);
});

test('a batch that fails at once does not keep the next one waiting', async () => {
  const [tried, taken] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  const lines = new RequestLines((text) => {
    tried.resolve();
    if (text.includes('lost')) throw new Error('broken pipe');
    taken.resolve(text);
  });
  lines.ended(endedRequest({ requestId: 'lost' }));
  await tried.promise;
  lines.ended(endedRequest({ requestId: 'taken' }));
  expect(JSON.parse(await taken.promise).request_id).toBe('taken');
  expect(lines.families()[0]?.samples).toEqual([{ value: 1 }]);
});

test('a flush with one batch under way and nothing behind it waits too', async () => {
  const begun = Promise.withResolvers<void>();
  let isTaken = false;
  const lines = new RequestLines(async () => {
    begun.resolve();
    await Bun.sleep(20);
    isTaken = true;
  });
  lines.ended(endedRequest());
  await begun.promise;
  await lines.flush();
  expect(isTaken).toBe(true);
});
