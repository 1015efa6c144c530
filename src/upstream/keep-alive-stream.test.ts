import { describe, expect, test } from 'bun:test';
import { GatewayError } from '../core/errors.ts';
import type { StreamFormat } from '../dialects/dialect.ts';
import { type Stream, withKeepAlive } from './keep-alive-stream.ts';

const format: StreamFormat = {
  fail: (error, { id }) => `failed ${id}: ${error.message}`,
};
const identity = { id: 'a', model: 'b', created: 1 };
const neverLate = (): never => {
  throw new Error('No late error is expected.');
};

async function* streamOf(...pieces: string[]): AsyncGenerator<string> {
  yield* pieces;
}

async function collect(stream: Stream): Promise<string[]> {
  const pieces: string[] = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

describe('withKeepAlive', () => {
  test('returns the stream itself when it opens in time', async () => {
    const stream = streamOf('hello');
    expect(await withKeepAlive(Promise.resolve(stream), format, identity, neverLate, 1000)).toBe(
      stream,
    );
  });

  test('rejects with an error that occurs before the first keep-alive', async () => {
    const rejection = new GatewayError('upstream_error', 'no');
    const opening = Promise.reject(rejection);
    await expect(withKeepAlive(opening, format, identity, neverLate, 1000)).rejects.toBe(rejection);
  });

  test('sends keep-alives until the stream opens, and then its content', async () => {
    const { promise, resolve } = Promise.withResolvers<Stream>();
    const late = await withKeepAlive(promise, format, identity, neverLate, 20);
    expect(await late.next()).toEqual({ done: false, value: ': keep-alive\n\n' });
    expect(await late.next()).toEqual({ done: false, value: ': keep-alive\n\n' });
    resolve(streamOf('hello', 'there'));
    expect(await collect(late)).toEqual(['hello', 'there']);
  });

  test('writes a late error into the stream and reports it', async () => {
    const { promise, reject } = Promise.withResolvers<Stream>();
    const reported: GatewayError[] = [];
    const late = await withKeepAlive(
      promise,
      format,
      identity,
      (error) => reported.push(error),
      20,
    );
    const failure = new GatewayError('upstream_error', 'no');
    reject(failure);
    expect(await late.next()).toEqual({ done: false, value: ': keep-alive\n\n' });
    expect(await late.next()).toEqual({ done: false, value: 'failed a: no' });
    // The transfer must not be finished, so that no client takes the answer for complete.
    await expect(late.next()).rejects.toBe(failure);
    expect(reported).toEqual([failure]);
  });

  test('reports a late error after the client disconnected', async () => {
    const { promise, reject } = Promise.withResolvers<Stream>();
    const reported: unknown[] = [];
    const late = await withKeepAlive(
      promise,
      format,
      identity,
      ({ cause }) => reported.push(cause),
      20,
    );
    const leaving = late.return?.();
    const error = new TypeError('pieces is not iterable');
    reject(error);
    await leaving;
    expect(reported).toEqual([error]);
  });

  test('closes the stream if the client disconnected before it opened', async () => {
    const { promise, resolve } = Promise.withResolvers<Stream>();
    const late = await withKeepAlive(promise, format, identity, neverLate, 20);
    const leaving = late.return?.();
    let closed = false;
    const stream = streamOf('hello');
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
