import { expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { Watch } from '../core/watch.ts';
import { ByteSource } from './byte-source.ts';
import { bodyOf } from './connection/answer.ts';
import { Line } from './line.ts';

/** All pieces of an answer that came so and was to have so many bytes. */
async function read(pieces: readonly string[], bytes: number | null): Promise<string[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(Buffer.from(piece));
      controller.close();
    },
  });
  const line = new Line(new Watch(), new AbortController().signal);
  const source = new ByteSource(bodyOf(body), line, 60_000, bytes);
  const found: string[] = [];
  try {
    for (let piece = await source.next(); piece; piece = await source.next()) {
      found.push(Buffer.from(piece).toString());
    }
  } finally {
    line.hangUp();
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
