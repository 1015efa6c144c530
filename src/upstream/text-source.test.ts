import { afterEach, describe, expect, test } from 'bun:test';
import { eventFrame } from '../../tests/support/fake-upstream/frames.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { FrameDecoder } from '../dialects/bedrock/upstream/frames.ts';
import { bodyOf } from './connection/response.ts';
import {
  endOfStream,
  readAll,
  type SourceTimeouts,
  silence,
  TextSource,
  UpstreamCall,
} from './upstream-call.ts';

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** An upstream whose every byte the test sends itself. */
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
  const line = new UpstreamCall(new DeadlineWatcher(), client.signal);
  line.signal.addEventListener('abort', () => body?.error(new Error('aborted')));
  const source = new TextSource(bodyOf(stream), line, timeouts, undefined, decoder);
  ends.push(() => {
    source.close();
    line.cancel();
  });
  const send = (bytes: string | Uint8Array) => body?.enqueue(Buffer.from(bytes));
  return { source, line, client, send, end: () => body?.close(), pulls };
}

describe('a source', () => {
  test('that broke says so to everybody who asks', async () => {
    const { source, client } = upstream();
    const first = source.next().catch(() => 'broken');
    client.abort();
    expect(await first).toBe('broken');
    expect(await source.next().catch(() => 'broken')).toBe('broken');
  });

  test('gives text as it comes, characters whole, and then the end', async () => {
    const { source, send, end } = upstream();
    const [first, rest] = [Buffer.from('é😀').subarray(0, 4), Buffer.from('é😀').subarray(4)];
    send(first);
    expect(await source.next()).toBe('é');
    send(rest);
    expect(await source.next()).toBe('😀');
    end();
    expect(await source.next()).toBe(endOfStream);
  });

  test('is silent between the halves of a frame', async () => {
    const timeouts = { idleMs: 10_000, quietMs: 1 };
    const { source, send, end } = upstream(timeouts, new FrameDecoder());
    const frame = eventFrame('messageStop', {});
    send(frame.subarray(0, 20));
    expect([await source.next(), await source.next()]).toEqual(['', silence]);
    send(frame.subarray(20));
    expect(await source.next()).toBe('event: messageStop\ndata: {}\n\n');
    end();
    expect(await source.next()).toBe(endOfStream);
  });

  test('gives a long read in pieces, characters whole, before it reads on', async () => {
    const { source, send, end, pulls } = upstream();
    const long = `a${'é'.repeat(70_000)}`;
    send(long);
    const pieces = [await source.next(), await source.next(), await source.next()].map(String);
    expect(pieces.join('')).toBe(long);
    expect(Math.max(...pieces.map((piece) => Buffer.byteLength(piece)))).toBeLessThan(70_000);
    expect(pulls).toHaveLength(0);
    end();
    expect(await source.next()).toBe(endOfStream);
  });

  test('gives a long read in its order, though it came while nobody waited', async () => {
    const { source, send } = upstream({ idleMs: 10_000, keepAliveAfterMs: 1 });
    expect(await source.next()).toBe(silence);
    send('a'.repeat(65_536) + 'b'.repeat(10));
    await Bun.sleep(5);
    expect(await source.next()).toBe('a'.repeat(65_536));
    expect(await source.next()).toBe('b'.repeat(10));
  });

  test('marks half a character at the end instead of losing it', async () => {
    const { source, send, end } = upstream();
    send(Buffer.from([0x61, 0xf0, 0x9f]));
    expect(await source.next()).toBe('a');
    end();
    expect(await source.next()).toBe('\ufffd');
    expect(await source.next()).toBe(endOfStream);
  });

  test('reads nothing before somebody asks', async () => {
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

  test('says again and again that it is quiet, and loses nothing by it', async () => {
    const { source, send } = upstream({ idleMs: 10_000, keepAliveAfterMs: 100 });
    expect(await source.next()).toBe(silence);
    expect(await source.next()).toBe(silence);
    send('at last');
    expect(await source.next()).toBe('at last');
  });

  test('breaks when the upstream is silent for too long, also across quiet moments', async () => {
    const { source, line } = upstream({ idleMs: 2_000, keepAliveAfterMs: 100 });
    const pieces: unknown[] = [];
    const read = async () => {
      for (;;) pieces.push(await source.next());
    };
    await expect(read()).rejects.toThrow('aborted');
    expect(line.timedOut).toBe(true);
    // No more of them than fit into the time, however long each of them took.
    expect(pieces.length).toBeWithin(1, 30);
    expect(new Set(pieces)).toEqual(new Set([silence]));
  });

  test('breaks when the client leaves, which is no timeout', async () => {
    const { source, client, line } = upstream();
    const next = source.next();
    client.abort();
    await expect(next).rejects.toThrow('aborted');
    expect([line.timedOut, line.clientDisconnected]).toEqual([false, true]);
  });
});

describe('after a finished answer', () => {
  const timeouts = { idleMs: 10_000, afterFinishMs: 150 };
  const finished = { finished: true, ended: false };

  test('silence is not waited out, and is the end', async () => {
    const { source, line } = upstream(timeouts);
    source.expectEnd(finished);
    expect(await source.next()).toBe(endOfStream);
    expect(line.timedOut).toBe(false);
  });

  test('silence after its terminator is waited for even less', async () => {
    const { source } = upstream({ idleMs: 10_000, afterFinishMs: 60_000 });
    source.expectEnd(finished);
    source.expectEnd({ finished: true, ended: true });
    expect(await source.next()).toBe(endOfStream);
  });

  test('an upstream that talks on is not heard for ever', async () => {
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

  test('an upstream that sends faster than we read is not heard for ever', async () => {
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

  test('what came while nobody asked is heard, however slow the client is', async () => {
    const { source, send } = upstream({ ...timeouts, keepAliveAfterMs: 20 });
    expect(await source.next()).toBe(silence);
    source.expectEnd(finished);
    send('usage');
    await Bun.sleep(300);
    expect(await source.next()).toBe('usage');
  });

  test('the time that the client takes does not count against the upstream', async () => {
    const { source, send } = upstream(timeouts);
    source.expectEnd(finished);
    await Bun.sleep(300);
    const next = source.next();
    setTimeout(() => send('usage'), 10);
    expect(await next).toBe('usage');
  });

  test('an answer that goes on after all has its time again', async () => {
    const { source, send } = upstream(timeouts);
    source.expectEnd(finished);
    source.expectEnd({ finished: false, ended: false });
    const next = source.next();
    setTimeout(() => send('second choice'), 400);
    expect(await next).toBe('second choice');
  });
});

describe('a whole answer', () => {
  test('is all of its pieces', async () => {
    const { source, send, end } = upstream();
    send('one ');
    send('two');
    end();
    expect(await readAll(source, 7)).toBe('one two');
  });

  test('is nothing when it is longer than the bound', async () => {
    const { source, send, end } = upstream();
    send('12345678');
    end();
    expect(await readAll(source, 7)).toBeUndefined();
  });
});
