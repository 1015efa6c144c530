import { describe, expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { noUsage } from '../core/usage.ts';
import { noMetrics, type OpenBytes } from './attempt.ts';
import { ByteSource, BytesAnswer } from './byte-stream.ts';
import { bodyOf } from './connection/response.ts';
import type { StreamOutcome } from './stream-answer.ts';
import { UpstreamCall } from './upstream-call.ts';

/** Reads all pieces of an answer with this content-length. */
async function read(pieces: readonly string[], bytes: number | null): Promise<string[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(Buffer.from(piece));
      controller.close();
    },
  });
  const call = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
  const source = new ByteSource(bodyOf(body), call, 60_000, bytes);
  const found: string[] = [];
  try {
    for (let chunk = await source.next(); chunk; chunk = await source.next()) {
      found.push(Buffer.from(chunk).toString());
    }
  } finally {
    call.cancel();
  }
  return found;
}

test('ByteSource reads an answer as long as its content-length', async () => {
  expect(await read(['ab', 'cd'], 4)).toEqual(['ab', 'cd']);
  expect(await read(['ab', 'cd'], null)).toEqual(['ab', 'cd']);
});

test('ByteSource rejects an answer shorter than its content-length', async () => {
  const { message } = await failureOf(read(['ab', 'c'], 4));
  expect(message).toBe('The answer is shorter than its content-length.');
});

test('ByteSource skips empty pieces', async () => {
  expect(await read(['ab', '', 'cd'], 4)).toEqual(['ab', 'cd']);
});

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

  test('sends everything before an interruption, and then rejects', async () => {
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
