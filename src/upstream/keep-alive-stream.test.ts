import { describe, expect, test } from 'bun:test';
import { GatewayError } from '../core/errors.ts';
import type { StreamFormat } from '../dialects/dialect.ts';
import { type Stream, withKeepAlive } from './keep-alive-stream.ts';

const content: StreamFormat = {
  fail: (error, { id }) => `failed ${id}: ${error.message}`,
};
const identity = { id: 'a', model: 'b', created: 1 };
const unread = (): never => {
  throw new Error('Nothing failed late.');
};

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
    expect(await withKeepAlive(Promise.resolve(stream), content, identity, unread, 1000)).toBe(
      stream,
    );
  });

  test('keeps the refusal that comes soon', async () => {
    const refusal = new GatewayError('upstream_error', 'no');
    const opening = Promise.reject(refusal);
    await expect(withKeepAlive(opening, content, identity, unread, 1000)).rejects.toBe(refusal);
  });

  test('says that we are there until it begins, then goes on', async () => {
    const { promise, resolve } = Promise.withResolvers<Stream>();
    const late = await withKeepAlive(promise, content, identity, unread, 20);
    expect(await late.next()).toEqual({ done: false, value: ': keep-alive\n\n' });
    expect(await late.next()).toEqual({ done: false, value: ': keep-alive\n\n' });
    resolve(speak('hello', 'there'));
    expect(await collect(late)).toEqual(['hello', 'there']);
  });

  test('tells a late failure inside the stream and ends', async () => {
    const { promise, reject } = Promise.withResolvers<Stream>();
    const reported: GatewayError[] = [];
    const late = await withKeepAlive(
      promise,
      content,
      identity,
      (error) => reported.push(error),
      20,
    );
    const failure = new GatewayError('upstream_error', 'no');
    reject(failure);
    expect(await collect(late)).toEqual([': keep-alive\n\n', 'failed a: no']);
    expect(reported).toEqual([failure]);
  });

  test('tells of a late failure though the client has left', async () => {
    const { promise, reject } = Promise.withResolvers<Stream>();
    const reported: unknown[] = [];
    const late = await withKeepAlive(
      promise,
      content,
      identity,
      ({ cause }) => reported.push(cause),
      20,
    );
    const leaving = late.return?.();
    const mistake = new TypeError('words is not iterable');
    reject(mistake);
    await leaving;
    expect(reported).toEqual([mistake]);
  });

  test('is closed after a client that left before it began', async () => {
    const { promise, resolve } = Promise.withResolvers<Stream>();
    const late = await withKeepAlive(promise, content, identity, unread, 20);
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
