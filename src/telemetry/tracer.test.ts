import { expect, test } from 'bun:test';
import { endedRequest } from '../../tests/support/ended-request.ts';
import { tracesOpenMax } from '../core/bounds.ts';
import type { Span } from './trace-export.ts';
import { Tracer } from './tracer.ts';

const called = (requestId: string) => ({ requestId, receivedAt: Date.now(), startedAt: 0 });

test('Tracer skips requests above the limit of open traces', () => {
  const added: (readonly Span[])[] = [];
  const tracer = new Tracer((spans) => added.push(spans));
  for (let index = 0; index < tracesOpenMax; index += 1) tracer.requestStarted(called(`${index}`));
  tracer.requestStarted(called('late'));
  expect(tracer.attemptStarted(called('late'))).toBeUndefined();
  tracer.requestEnded(endedRequest({ requestId: 'late', attempts: [] }));
  expect(added).toEqual([]);
  // A request that ends frees a slot.
  tracer.requestEnded(endedRequest({ requestId: '0', attempts: [] }));
  tracer.requestStarted(called('later'));
  expect(tracer.attemptStarted(called('later'))).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
  expect(added.length).toBe(1);
});

test("Tracer ends a failed attempt's span when it fails, and a stream's span when the stream ends", () => {
  const added: Span[] = [];
  const tracer = new Tracer((spans) => added.push(...spans));
  tracer.requestStarted(called('one'));
  for (const _ of ['failed', 'answered']) tracer.attemptStarted(called('one'));
  const attempt = { provider: 'first', model: 'test/chat', status: 200, ms: 40 };
  const attempts = [
    { ...attempt, outcome: 'server' },
    { ...attempt, outcome: 'answered' },
  ];
  const request = { requestId: 'one', streamed: true, durationMs: 5_000, attempts };
  tracer.requestEnded(endedRequest(request));
  const [full, failed, answered] = added;
  expect([failed, answered].map((span) => span?.kind)).toEqual(['client', 'client']);
  expect((failed?.endMs ?? 0) - (failed?.startMs ?? 0)).toBeCloseTo(40, 6);
  expect(answered?.endMs).toBe(full?.endMs ?? 0);
});
