import { expect, test } from 'bun:test';
import { createLog, OutageLog } from './log.ts';

function listening() {
  const lines: string[] = [];
  const outages = new OutageLog(createLog((line) => void lines.push(line)));
  /** What was written since the last look, without the times. */
  const reported = () =>
    lines.splice(0).map((line): unknown => {
      const { time: _, ...fields } = JSON.parse(line);
      return fields;
    });
  const minute = async () => {
    for (const task of outages.periodicTasks()) await task.run();
    return reported();
  };
  return { outages, reported, minute };
}

test('an outage is told when it begins, once a minute, and when it is over', async () => {
  const { outages, reported, minute } = listening();
  const fail = (id: string, why = 'refused') =>
    outages.failed('The store is away.', { request_id: id, reason: `The store is away. (${why})` });
  for (const id of ['a', 'b', 'c']) fail(id);
  const reason = 'The store is away. (refused)';
  expect(reported()).toEqual([
    { level: 'error', event: 'request_failed', request_id: 'a', reason },
  ]);
  fail('d', 'timeout');
  expect(await minute()).toEqual([
    {
      level: 'error',
      event: 'requests_failed',
      requests: 3,
      reason: 'The store is away. (timeout)',
    },
  ]);
  fail('e');
  expect(await minute()).toEqual([
    { level: 'error', event: 'requests_failed', requests: 1, reason },
  ]);
  expect(await minute()).toEqual([
    { level: 'info', event: 'requests_recovered', requests: 5, reason },
  ]);
  expect(await minute()).toEqual([]);
  fail('f');
  expect(reported()).toMatchObject([{ event: 'request_failed', request_id: 'f' }]);
});

test('a single failure has a single line', async () => {
  const { outages, reported, minute } = listening();
  outages.failed('The disk is full.', { reason: 'The disk is full.' });
  expect(reported()).toHaveLength(1);
  expect(await minute()).toEqual([]);
});

test('a stop tells what was not told yet, and does not call it the end', () => {
  const { outages, reported } = listening();
  const reason = 'The store is away.';
  for (const request_id of ['a', 'b']) outages.failed(reason, { request_id, reason });
  reported();
  outages.flush();
  expect(reported()).toEqual([{ level: 'error', event: 'requests_failed', requests: 1, reason }]);
  outages.flush();
  expect(reported()).toEqual([]);
});

test('outages are counted apart by sentence, and at most a hundred are kept', async () => {
  const { outages, reported, minute } = listening();
  const reasons = Array.from({ length: 101 }, (_, i) => `Reason ${i}.`);
  for (let times = 0; times < 2; times++) {
    for (const reason of reasons) outages.failed(reason, { reason });
  }
  // The last one found no place, and is told each time.
  expect(reported()).toHaveLength(102);
  expect(await minute()).toHaveLength(100);
});
