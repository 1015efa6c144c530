import { afterEach, describe, expect, test } from 'bun:test';
import { eventFrame } from '../../tests/support/fake-upstream/frames.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { FrameDecoder } from '../dialects/bedrock/upstream/frames.ts';
import { bodyOf } from './connection/response.ts';
import { endOfStream, readAll, type SourceTimeouts, silence, TextSource } from './text-source.ts';
import { UpstreamCall } from './upstream-call.ts';

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** Returns a source whose upstream the test controls. */
function upstream(timeouts: SourceTimeouts = { idleMs: 10_000 }, decoder?: FrameDecoder) {
  let body: ReadableStreamDefaultController<Uint8Array> | undefined;
  const pulls: number[] = [];
  const stream = new ReadableStream<Uint8Array>(
    {
      start: (controller) => {
        body = controller;
      },
      pull: () => {
        pulls.push(performance.now());
      },
    },
    { highWaterMark: 0 },
  );
  const client = new AbortController();
  const call = new UpstreamCall(new DeadlineWatcher(), client.signal);
  call.signal.addEventListener('abort', () => body?.error(new Error('aborted')));
  const source = new TextSource(bodyOf(stream), call, timeouts, undefined, decoder);
  ends.push(() => {
    source.close();
    call.cancel();
  });
  const send = (bytes: string | Uint8Array) => body?.enqueue(Buffer.from(bytes));
  return { source, call, client, send, end: () => body?.close(), pulls };
}

describe('TextSource', () => {
  test('rejects every read after the connection broke', async () => {
    const { source, client } = upstream();
    const first = source.next().catch(() => 'broken');
    client.abort();
    expect(await first).toBe('broken');
    expect(await source.next().catch(() => 'broken')).toBe('broken');
  });

  test('returns complete characters as they arrive, and then the end', async () => {
    const { source, send, end } = upstream();
    const [first, rest] = [Buffer.from('é😀').subarray(0, 4), Buffer.from('é😀').subarray(4)];
    send(first);
    expect(await source.next()).toBe('é');
    send(rest);
    expect(await source.next()).toBe('😀');
    end();
    expect(await source.next()).toBe(endOfStream);
  });

  test('returns an empty piece and silence while a frame is incomplete', async () => {
    const timeouts = { idleMs: 10_000, keepAliveAfterMs: 1 };
    const { source, send, end } = upstream(timeouts, new FrameDecoder());
    const frame = eventFrame('messageStop', {});
    send(frame.subarray(0, 20));
    expect([await source.next(), await source.next()]).toEqual(['', silence]);
    send(frame.subarray(20));
    expect(await source.next()).toBe('event: messageStop\ndata: {}\n\n');
    end();
    expect(await source.next()).toBe(endOfStream);
  });

  test('returns a long read in several pieces before it reads again', async () => {
    const { source, send, end, pulls } = upstream();
    const long = `a${'é'.repeat(70_000)}`;
    send(long);
    const pieces: string[] = [];
    while (pieces.join('').length < long.length) pieces.push(String(await source.next()));
    expect(pieces.join('')).toBe(long);
    expect(Math.max(...pieces.map((piece) => Buffer.byteLength(piece)))).toBeLessThan(20_000);
    expect(pulls).toHaveLength(0);
    end();
    expect(await source.next()).toBe(endOfStream);
  });

  test('copies the unread part of a long read if its reader is slow, to free the rest', async () => {
    const bytes = Buffer.alloc(40_000, 'a');
    const call = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
    const body = { read: (onBytes: (bytes: Uint8Array) => void) => onBytes(bytes), cancel() {} };
    const source = new TextSource(body, call, { idleMs: 10_000 });
    ends.push(() => {
      source.close();
      call.cancel();
    });
    expect(await source.next()).toBe('a'.repeat(16_384));
    source.fire();
    bytes.fill('b');
    expect(await source.next()).toBe('a'.repeat(16_384));
  });

  test('returns a long read in order when it arrived without a waiting reader', async () => {
    const { source, send } = upstream({ idleMs: 10_000, keepAliveAfterMs: 1 });
    expect(await source.next()).toBe(silence);
    send('a'.repeat(16_384) + 'b'.repeat(10));
    await Bun.sleep(5);
    expect(await source.next()).toBe('a'.repeat(16_384));
    expect(await source.next()).toBe('b'.repeat(10));
  });

  test('gives other events a turn between the pieces of long reads by several streams', async () => {
    const sources = Array.from({ length: 4 }, () => upstream());
    let bytesInTurn = 0;
    let bytesInLongestTurn = 0;
    const read = async ({ source }: { source: TextSource }) => {
      for (let left = 300_000; left > 0; ) {
        const piece = String(await source.next());
        left -= piece.length;
        bytesInTurn += piece.length;
        bytesInLongestTurn = Math.max(bytesInLongestTurn, bytesInTurn);
      }
    };
    const reads = Promise.all(sources.map(read));
    let isDone = false;
    void reads.then(() => {
      isDone = true;
    });
    for (const { send } of sources) send('x'.repeat(300_000));
    while (!isDone) {
      await new Promise(setImmediate);
      bytesInTurn = 0;
    }
    expect(bytesInLongestTurn).toBeLessThan(200_000);
  });

  test('replaces an incomplete character at the end', async () => {
    const { source, send, end } = upstream();
    send(Buffer.from([0x61, 0xf0, 0x9f]));
    expect(await source.next()).toBe('a');
    end();
    expect(await source.next()).toBe('\ufffd');
    expect(await source.next()).toBe(endOfStream);
  });

  test('does not read before the first request', async () => {
    const { source, send, pulls } = upstream();
    await Promise.resolve();
    expect(pulls).toHaveLength(0);
    const next = source.next();
    await Promise.resolve();
    expect(pulls).toHaveLength(1);
    send('x');
    await next;
    expect(pulls).toHaveLength(1);
  });

  test('returns silence repeatedly without losing data', async () => {
    const { source, send } = upstream({ idleMs: 10_000, keepAliveAfterMs: 100 });
    expect(await source.next()).toBe(silence);
    expect(await source.next()).toBe(silence);
    send('at last');
    expect(await source.next()).toBe('at last');
  });

  test('rejects when the upstream is silent for longer than idleMs', async () => {
    const { source, call } = upstream({ idleMs: 2_000, keepAliveAfterMs: 100 });
    const pieces: unknown[] = [];
    const read = async () => {
      for (;;) pieces.push(await source.next());
    };
    await expect(read()).rejects.toThrow('aborted');
    expect(call.timedOut).toBe(true);
    // At most as many as fit into idleMs.
    expect(pieces.length).toBeWithin(1, 30);
    expect(new Set(pieces)).toEqual(new Set([silence]));
  });

  test('rejects without a timeout when the client disconnects', async () => {
    const { source, client, call } = upstream();
    const next = source.next();
    client.abort();
    await expect(next).rejects.toThrow('aborted');
    expect([call.timedOut, call.clientDisconnected]).toEqual([false, true]);
  });
});

describe('TextSource, after a finished answer', () => {
  const timeouts = { idleMs: 10_000, afterFinishMs: 150 };
  const finished = { finished: true, ended: false };

  test('ends when the upstream is silent for afterFinishMs', async () => {
    const { source, call } = upstream(timeouts);
    source.expectEnd(finished);
    expect(await source.next()).toBe(endOfStream);
    expect(call.timedOut).toBe(false);
  });

  test('ends sooner after a terminator', async () => {
    const { source } = upstream({ idleMs: 10_000, afterFinishMs: 60_000 });
    source.expectEnd(finished);
    source.expectEnd({ finished: true, ended: true });
    expect(await source.next()).toBe(endOfStream);
  });

  test('ends even though the upstream keeps sending', async () => {
    const { source, send } = upstream(timeouts);
    const talk = setInterval(() => send(': more\n\n'), 10);
    let pieces = 0;
    try {
      for (;;) {
        source.expectEnd(finished);
        const piece = await source.next();
        if (piece === endOfStream) break;
        pieces += 1;
      }
    } finally {
      clearInterval(talk);
    }
    expect(pieces).toBeGreaterThan(0);
    expect(pieces).toBeLessThan(400);
  });

  test('ends even though the upstream sends faster than it is read', async () => {
    const { source, send } = upstream(timeouts);
    const readMs = 20;
    let pieces = 0;
    for (; pieces < 40; pieces += 1) {
      source.expectEnd(finished);
      send(': more\n\n');
      if ((await source.next()) === endOfStream) break;
      Bun.sleepSync(readMs);
    }
    expect(pieces).toBeWithin(1, 40);
  });

  test('returns what arrived in time even if the client reads late', async () => {
    const { source, send } = upstream({ ...timeouts, keepAliveAfterMs: 20 });
    expect(await source.next()).toBe(silence);
    source.expectEnd(finished);
    send('usage');
    await Bun.sleep(300);
    expect(await source.next()).toBe('usage');
  });

  test('does not count the time during which a slow client does not read', async () => {
    const { source, send } = upstream(timeouts);
    source.expectEnd(finished);
    await Bun.sleep(300);
    const next = source.next();
    setTimeout(() => send('usage'), 10);
    expect(await next).toBe('usage');
  });

  test('lifts the limit when the answer continues', async () => {
    const { source, send } = upstream(timeouts);
    source.expectEnd(finished);
    source.expectEnd({ finished: false, ended: false });
    const next = source.next();
    setTimeout(() => send('second choice'), 400);
    expect(await next).toBe('second choice');
  });
});

describe('readAll', () => {
  test('joins all pieces', async () => {
    const { source, send, end } = upstream();
    send('one ');
    send('two');
    end();
    expect(await readAll(source, 7)).toBe('one two');
  });

  test('returns undefined for an answer longer than the limit', async () => {
    const { source, send, end } = upstream();
    send('12345678');
    end();
    expect(await readAll(source, 7)).toBeUndefined();
  });
});
