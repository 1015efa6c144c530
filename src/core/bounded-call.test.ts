import { expect, test } from 'bun:test';
import { boundedCall } from './bounded-call.ts';

const hourMs = 3_600_000;

/** A call that goes on until it is told that its time is over. */
function untilOver(over: AbortSignal): Promise<string> {
  if (over.aborted) return Promise.resolve('over before it began');
  const ended = Promise.withResolvers<string>();
  over.addEventListener('abort', () => ended.resolve('over'));
  return ended.promise;
}

test('a call hears when its time is over', async () => {
  expect(await boundedCall(1, undefined, untilOver)).toBe('over');
});

test('a call hears when its client leaves', async () => {
  const client = new AbortController();
  const call = boundedCall(hourMs, client.signal, untilOver);
  client.abort();
  expect(await call).toBe('over');
});

test('a call for a client that has left hears so from the beginning', async () => {
  expect(await boundedCall(hourMs, AbortSignal.abort(), untilOver)).toBe('over before it began');
});

test('what a call left open is closed once it has an answer, and not before', async () => {
  let told: AbortSignal | undefined;
  const answer = await boundedCall(hourMs, undefined, async (over) => {
    told = over;
    return over.aborted ? 'too late' : 'an answer';
  });
  expect([answer, told?.aborted]).toEqual(['an answer', true]);
});

test('what a failed call left open is closed too, and its failure is passed on', async () => {
  let told: AbortSignal | undefined;
  const call = boundedCall(hourMs, undefined, (over) => {
    told = over;
    return Promise.reject(new Error('refused'));
  });
  expect(call).rejects.toThrow('refused');
  await call.catch(() => undefined);
  expect(told?.aborted).toBe(true);
});
