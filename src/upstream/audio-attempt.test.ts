import { expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { ByteSource } from './audio-attempt.ts';
import { bodyOf } from './connection/response.ts';
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

test('ByteSource reads a response as long as its content-length', async () => {
  expect(await read(['ab', 'cd'], 4)).toEqual(['ab', 'cd']);
  expect(await read(['ab', 'cd'], null)).toEqual(['ab', 'cd']);
});

test('ByteSource rejects a response shorter than its content-length', async () => {
  const { message } = await failureOf(read(['ab', 'c'], 4));
  expect(message).toBe('The response is shorter than its content-length.');
});

test('ByteSource skips empty pieces', async () => {
  expect(await read(['ab', '', 'cd'], 4)).toEqual(['ab', 'cd']);
});
