import { expect, test } from 'bun:test';
import { createLog } from './log.ts';
import { OutageLog } from './outage-log.ts';

function createOutages() {
  const lines: string[] = [];
  const outages = new OutageLog(createLog((line) => void lines.push(line)));
  /** Returns the lines written since the last call, without times. */
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

test('OutageLog reports an outage at its start, every minute, and at its end', async () => {
  const { outages, reported, minute } = createOutages();
  const fail = (id: string, reason = 'refused') =>
    outages.failed('The store is unreachable.', {
      request_id: id,
      reason: `The store is unreachable. (${reason})`,
    });
  for (const id of ['a', 'b', 'c']) fail(id);
  const reason = 'The store is unreachable. (refused)';
  expect(reported()).toEqual([
    { level: 'error', event: 'request_failed', request_id: 'a', reason },
  ]);
  fail('d', 'timeout');
  expect(await minute()).toEqual([
    {
      level: 'error',
      event: 'requests_failed',
      requests: 3,
      reason: 'The store is unreachable. (timeout)',
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

test('OutageLog writes one line for one failure', async () => {
  const { outages, reported, minute } = createOutages();
  outages.failed('The disk is full.', { reason: 'The disk is full.' });
  expect(reported()).toHaveLength(1);
  expect(await minute()).toEqual([]);
});

test('OutageLog.flush reports pending failures without reporting a recovery', () => {
  const { outages, reported } = createOutages();
  const reason = 'The store is unreachable.';
  for (const request_id of ['a', 'b']) outages.failed(reason, { request_id, reason });
  reported();
  outages.flush();
  expect(reported()).toEqual([{ level: 'error', event: 'requests_failed', requests: 1, reason }]);
  outages.flush();
  expect(reported()).toEqual([]);
});

test('OutageLog tracks at most 100 outages by message', async () => {
  const { outages, reported, minute } = createOutages();
  const reasons = Array.from({ length: 101 }, (_, i) => `Reason ${i}.`);
  for (let times = 0; times < 2; times++) {
    for (const reason of reasons) outages.failed(reason, { reason });
  }
  // The last one exceeds the limit, so each failure is logged.
  expect(reported()).toHaveLength(102);
  expect(await minute()).toHaveLength(100);
});
