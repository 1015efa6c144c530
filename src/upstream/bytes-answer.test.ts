import { describe, expect, spyOn, test } from 'bun:test';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { turns } from '../core/turns.ts';
import { noUsage } from '../core/usage.ts';
import { noMetrics, type OpenBytes } from './attempt.ts';
import { BytesAnswer } from './bytes-answer.ts';
import type { StreamOutcome } from './stream-answer.ts';
import { pieceBytesMax } from './text-source.ts';
import { UpstreamCall } from './upstream-call.ts';

/** Creates an answer of these pieces. Null breaks the connection. */
function answerOf(...pieces: readonly (string | null)[]) {
  const [first = '', ...rest] = pieces;
  const metrics = { ...noMetrics };
  const bytes: OpenBytes = {
    kind: 'bytes',
    contentType: 'audio/mpeg',
    contentLength: null,
    first: Buffer.from(first ?? ''),
    async next() {
      const piece = rest.shift();
      if (piece === null) throw new Error('broken');
      return piece === undefined ? undefined : Buffer.from(piece);
    },
    upstreamCall: new UpstreamCall(new DeadlineWatcher(), new AbortController().signal),
    metrics,
  };
  const outcomes: string[] = [];
  const settle = async ({ kind }: StreamOutcome) => {
    outcomes.push(`${kind} after ${received.text}`);
    return { usage: noUsage, costCredits: 1 };
  };
  const received = { text: '' };
  return { answer: new BytesAnswer(bytes, settle), metrics, outcomes, received };
}

async function readAll({
  answer,
  received,
}: ReturnType<typeof answerOf>): Promise<'end' | 'break'> {
  try {
    for (let step = await answer.next(); !step.done; step = await answer.next()) {
      received.text += Buffer.from(step.value).toString();
    }
    return 'end';
  } catch {
    return 'break';
  }
}

describe('BytesAnswer', () => {
  test.each([
    [['abc', 'd', 'ef'], 'abcde'],
    [['a', 'b'], 'a'],
    [['a'], ''],
  ])('settles %j before the last byte is sent', async (pieces, before) => {
    const bytes = answerOf(...pieces);
    expect(await readAll(bytes)).toBe('end');
    expect(bytes.received.text).toBe(pieces.join(''));
    expect(bytes.outcomes).toEqual([`complete after ${before}`]);
    expect(bytes.metrics.outputCharacters).toBe(pieces.join('').length);
  });

  test('sends a piece without waiting for the next one', async () => {
    const { answer } = answerOf('abc');
    const { value } = await answer.next();
    expect(Buffer.from(value ?? []).toString()).toBe('ab');
  });

  test('sends a long chunk in pieces and then keeps only its last byte', async () => {
    const { answer, metrics } = answerOf('x'.repeat(512 * 1024));
    const pieces: Uint8Array[] = [];
    for (let step = await answer.next(); !step.done; step = await answer.next())
      pieces.push(step.value);
    expect(Math.max(...pieces.map(({ length }) => length))).toBe(pieceBytesMax);
    expect(pieces.at(-1)?.buffer.byteLength).toBe(1);
    expect(metrics.outputCharacters).toBe(512 * 1024);
  });

  test('gives other requests turns between the pieces of a long chunk', async () => {
    using pass = spyOn(turns, 'pass');
    const { answer } = answerOf('x'.repeat(4 * pieceBytesMax + 1));
    for (let step = await answer.next(); !step.done; ) step = await answer.next();
    expect(pass.mock.calls).toEqual(Array(4).fill([pieceBytesMax]));
  });

  test('sends everything that arrived before an interruption, then rejects', async () => {
    const bytes = answerOf('abc', 'de', null);
    expect(await readAll(bytes)).toBe('break');
    expect([bytes.received.text, bytes.metrics.outputCharacters]).toEqual(['abcde', 5]);
    expect(bytes.outcomes).toEqual(['interrupted after abcd']);
  });

  test('settles once when the client disconnects before the first byte', async () => {
    const bytes = answerOf('abc');
    await bytes.answer.return();
    await bytes.answer.return();
    expect(bytes.outcomes).toEqual(['client_disconnected after ']);
    expect(bytes.metrics.outputCharacters).toBe(0);
    expect(await bytes.answer.next()).toEqual({ done: true, value: undefined });
  });
});
