import { describe, expect, test } from 'bun:test';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { UpstreamCall } from './upstream-call.ts';

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

describe('a line', () => {
  test('hangs up when nothing was heard in time', async () => {
    const line = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
    line.expectDataWithin(50);
    await aborted(line.signal);
    expect([line.timedOut, line.clientDisconnected]).toEqual([true, false]);
  });

  test('waits as long as it takes while it is relaxed', async () => {
    const line = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
    line.expectDataWithin(50);
    line.suspendTimeout();
    await Bun.sleep(250);
    expect(line.signal.aborted).toBe(false);
    line.cancel();
  });

  test('hangs up when the whole takes too long, however lively it is', async () => {
    const line = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal, 50);
    line.expectDataWithin(60_000);
    line.suspendTimeout();
    line.expectDataWithin(60_000);
    await aborted(line.signal);
    expect(line.timedOut).toBe(true);
  });

  test('hangs up on a client that takes nothing for too long', async () => {
    const line = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal, 60_000, 50);
    line.suspendTimeout();
    await aborted(line.signal);
    expect(line.timedOut).toBe(true);
  });

  test('hangs up when the client leaves, or has left before', () => {
    const client = new AbortController();
    const line = new UpstreamCall(new DeadlineWatcher(), client.signal);
    expect(line.signal.aborted).toBe(false);
    client.abort();
    expect([line.signal.aborted, line.timedOut]).toEqual([true, false]);
    const late = new UpstreamCall(new DeadlineWatcher(), client.signal);
    expect(late.signal.aborted).toBe(true);
    line.cancel();
    late.cancel();
  });

  test('hangs up when the process has to go, or had to before', () => {
    const watch = new DeadlineWatcher();
    const client = new AbortController().signal;
    const line = new UpstreamCall(watch, client);
    watch.end();
    const late = new UpstreamCall(watch, client);
    for (const each of [line, late]) {
      expect([each.signal.aborted, each.isShuttingDown, each.timedOut]).toEqual([
        true,
        true,
        false,
      ]);
      each.cancel();
    }
  });

  test('outlives its client for as long as somebody reads on', async () => {
    const reader = { lingerMs: 100 };
    const client = new AbortController();
    const line = new UpstreamCall(new DeadlineWatcher(), client.signal);
    line.expectDataWithin(60_000);
    line.lingerFor(reader);
    client.abort();
    expect(line.signal.aborted).toBe(false);
    await aborted(line.signal);
    expect(line.clientDisconnected).toBe(true);
  });

  test('hangs up at once when nobody reads on', () => {
    const client = new AbortController();
    const line = new UpstreamCall(new DeadlineWatcher(), client.signal);
    line.lingerFor({ lingerMs: 0 });
    client.abort();
    expect(line.signal.aborted).toBe(true);
    line.cancel();
  });

  test('ends the call with it, at once where it has hung up, and never when released', () => {
    const ended: string[] = [];
    const call = (name: string) => ({ cancel: () => void ended.push(name) });
    const line = () => new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
    const [held, late, released] = [line(), line(), line()];
    held.bind(call('held'));
    released.bind(call('released'));
    expect(ended).toEqual([]);
    for (const each of [held, late]) each.cancel();
    late.bind(call('late'));
    released.release();
    expect(ended).toEqual(['held', 'late']);
  });

  test('leaves the connection alone once it was released', () => {
    const client = new AbortController();
    const line = new UpstreamCall(new DeadlineWatcher(), client.signal);
    line.release();
    client.abort();
    expect(line.signal.aborted).toBe(false);
  });

  test('may be hung up twice', () => {
    const line = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
    line.cancel();
    line.cancel();
    expect([line.signal.aborted, line.timedOut]).toEqual([true, false]);
  });
});
