import { describe, expect, test } from 'bun:test';
import { GatewayError } from '../core/errors.ts';
import type { ClientWords } from '../dialects/dialect.ts';
import { patiently, type Stream } from './late-stream.ts';

const words: ClientWords = {
  fail: (error, { id }) => `failed ${id}: ${error.message}`,
};
const identity = { id: 'a', model: 'b', created: 1 };

async function* speak(...pieces: string[]): AsyncGenerator<string> {
  yield* pieces;
}

async function collect(stream: Stream): Promise<string[]> {
  const pieces: string[] = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

describe('a stream that takes its time to begin', () => {
  test('is handed over as it is when it begins soon', async () => {
    const stream = speak('hello');
    expect(await patiently(Promise.resolve(stream), words, identity, 1000)).toBe(stream);
  });

  test('keeps the refusal that comes soon', async () => {
    const refusal = new GatewayError('upstream_error', 'no');
    const opening = Promise.reject(refusal);
    await expect(patiently(opening, words, identity, 1000)).rejects.toBe(refusal);
  });

  test('says that we are there until it begins, then goes on', async () => {
    const { promise, resolve } = Promise.withResolvers<Stream>();
    const late = await patiently(promise, words, identity, 20);
    expect(await late.next()).toEqual({ done: false, value: ': keep-alive\n\n' });
    expect(await late.next()).toEqual({ done: false, value: ': keep-alive\n\n' });
    resolve(speak('hello', 'there'));
    expect(await collect(late)).toEqual(['hello', 'there']);
  });

  test('tells a late failure inside the stream and ends', async () => {
    const { promise, reject } = Promise.withResolvers<Stream>();
    const late = await patiently(promise, words, identity, 20);
    reject(new GatewayError('upstream_error', 'no'));
    expect(await collect(late)).toEqual([': keep-alive\n\n', 'failed a: no']);
  });

  test('is closed after a client that left before it began', async () => {
    const { promise, resolve } = Promise.withResolvers<Stream>();
    const late = await patiently(promise, words, identity, 20);
    const leaving = late.return?.();
    let closed = false;
    const stream = speak('hello');
    stream.return = async () => {
      closed = true;
      return { done: true, value: undefined };
    };
    resolve(stream);
    await leaving;
    expect(closed).toBe(true);
    expect((await late.next()).done).toBe(true);
  });
});
