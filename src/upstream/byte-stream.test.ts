import { describe, expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { noUsage } from '../core/usage.ts';
import { noMetrics } from './attempt.ts';
import { ByteSource, BytesAnswer, type OpenBytes } from './byte-stream.ts';
import { bodyOf } from './connection/response.ts';
import type { StreamOutcome } from './stream-answer.ts';
import { UpstreamCall } from './upstream-call.ts';

/** All pieces of an answer that came so and was to have so many bytes. */
async function read(pieces: readonly string[], bytes: number | null): Promise<string[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(Buffer.from(piece));
      controller.close();
    },
  });
  const line = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
  const source = new ByteSource(bodyOf(body), line, 60_000, bytes);
  const found: string[] = [];
  try {
    for (let piece = await source.next(); piece; piece = await source.next()) {
      found.push(Buffer.from(piece).toString());
    }
  } finally {
    line.cancel();
  }
  return found;
}

test('an answer that is as long as it was to be is read to its end', async () => {
  expect(await read(['ab', 'cd'], 4)).toEqual(['ab', 'cd']);
  expect(await read(['ab', 'cd'], null)).toEqual(['ab', 'cd']);
});

test('one byte less is an answer that broke off', async () => {
  const { message } = await failureOf(read(['ab', 'c'], 4));
  expect(message).toBe('The answer is shorter than it was to be.');
});

test('an empty piece is no end', async () => {
  expect(await read(['ab', '', 'cd'], 4)).toEqual(['ab', 'cd']);
});

/** An answer of these pieces; null is where the connection breaks. */
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
  const ends: string[] = [];
  const settle = async ({ kind: how }: StreamOutcome) => {
    ends.push(`${how} after ${received.text}`);
    return { usage: noUsage, costCredits: 1 };
  };
  const received = { text: '' };
  return { answer: new BytesAnswer(bytes, settle), metrics, ends, received };
}

async function listen({ answer, received }: ReturnType<typeof answerOf>): Promise<'end' | 'break'> {
  try {
    for (let step = await answer.next(); !step.done; step = await answer.next()) {
      received.text += Buffer.from(step.value).toString();
    }
    return 'end';
  } catch {
    return 'break';
  }
}

describe('bytes on their way', () => {
  test.each([
    [['abc', 'd', 'ef'], 'abcde'],
    [['a', 'b'], 'a'],
    [['a'], ''],
  ])('%j: all but the last byte come before the bill', async (pieces, before) => {
    const one = answerOf(...pieces);
    expect(await listen(one)).toBe('end');
    expect(one.received.text).toBe(pieces.join(''));
    expect(one.ends).toEqual([`complete after ${before}`]);
    expect(one.metrics.outputCharacters).toBe(pieces.join('').length);
  });

  test('a piece does not wait for the next one', async () => {
    const { answer } = answerOf('abc');
    const { value } = await answer.next();
    expect(Buffer.from(value ?? []).toString()).toBe('ab');
  });

  test('what came before a break still goes out, and then it is told', async () => {
    const one = answerOf('abc', 'de', null);
    expect(await listen(one)).toBe('break');
    expect([one.received.text, one.metrics.outputCharacters]).toEqual(['abcde', 5]);
    expect(one.ends).toEqual(['cut after abcd']);
  });

  test('a client that never takes anything has left, and is billed once', async () => {
    const one = answerOf('abc');
    await one.answer.return();
    await one.answer.return();
    expect(one.ends).toEqual(['left after ']);
    expect(one.metrics.outputCharacters).toBe(0);
    expect(await one.answer.next()).toEqual({ done: true, value: undefined });
  });
});
