import { describe, expect, test } from 'bun:test';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { UpstreamCall } from './upstream-call.ts';

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

describe('UpstreamCall', () => {
  test('is canceled when no data arrives in time', async () => {
    const call = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
    call.expectDataWithin(50);
    await aborted(call.signal);
    expect([call.timedOut, call.clientDisconnected]).toEqual([true, false]);
  });

  test('does not time out while its timeout is suspended', async () => {
    const call = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
    call.expectDataWithin(50);
    call.suspendTimeout();
    await Bun.sleep(250);
    expect(call.signal.aborted).toBe(false);
    call.cancel();
  });

  test('is canceled when it takes too long in total', async () => {
    const call = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal, 50);
    call.expectDataWithin(60_000);
    call.suspendTimeout();
    call.expectDataWithin(60_000);
    await aborted(call.signal);
    expect(call.timedOut).toBe(true);
  });

  test('is canceled when its answer begins too late', async () => {
    const call = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
    call.mustOpenBy(performance.now() + 50);
    call.expectDataWithin(60_000);
    await aborted(call.signal);
    expect(call.timedOut).toBe(true);
  });

  test('has no deadline for its beginning once it has begun', async () => {
    const call = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
    call.mustOpenBy(performance.now() + 50);
    call.opened();
    call.expectDataWithin(60_000);
    await Bun.sleep(250);
    expect(call.signal.aborted).toBe(false);
    call.cancel();
  });

  test('is canceled when the client reads nothing for too long', async () => {
    const call = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal, 60_000, 50);
    call.suspendTimeout();
    await aborted(call.signal);
    expect(call.timedOut).toBe(true);
  });

  test('is canceled when the client disconnects or has already disconnected', () => {
    const client = new AbortController();
    const call = new UpstreamCall(new DeadlineWatcher(), client.signal);
    expect(call.signal.aborted).toBe(false);
    client.abort();
    expect([call.signal.aborted, call.timedOut]).toEqual([true, false]);
    const late = new UpstreamCall(new DeadlineWatcher(), client.signal);
    expect(late.signal.aborted).toBe(true);
    call.cancel();
    late.cancel();
  });

  test('is canceled when the process must exit', () => {
    const deadlines = new DeadlineWatcher();
    const clientSignal = new AbortController().signal;
    const call = new UpstreamCall(deadlines, clientSignal);
    deadlines.end();
    const late = new UpstreamCall(deadlines, clientSignal);
    for (const { signal, isShuttingDown, timedOut } of [call, late]) {
      expect([signal.aborted, isShuttingDown, timedOut]).toEqual([true, true, false]);
    }
    call.cancel();
    late.cancel();
  });

  test('stays open after a disconnect for the linger time of its reader', async () => {
    const reader = { lingerMs: 100 };
    const client = new AbortController();
    const call = new UpstreamCall(new DeadlineWatcher(), client.signal);
    call.expectDataWithin(60_000);
    call.lingerFor(reader);
    client.abort();
    expect(call.signal.aborted).toBe(false);
    await aborted(call.signal);
    expect(call.clientDisconnected).toBe(true);
  });

  test('is canceled immediately after a disconnect when the linger time is 0', () => {
    const client = new AbortController();
    const call = new UpstreamCall(new DeadlineWatcher(), client.signal);
    call.lingerFor({ lingerMs: 0 });
    client.abort();
    expect(call.signal.aborted).toBe(true);
    call.cancel();
  });

  test('cancels everything bound before or after the cancellation, unless it was released', () => {
    const canceled: string[] = [];
    const bound = (name: string) => ({
      cancel: () => void canceled.push(name),
      isAccepted: false,
    });
    const newCall = () => new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
    const [early, late, released] = [newCall(), newCall(), newCall()];
    early.bind(bound('early'));
    released.bind(bound('released'));
    expect(canceled).toEqual([]);
    early.cancel();
    late.cancel();
    late.bind(bound('late'));
    released.release();
    expect(canceled).toEqual(['early', 'late']);
  });

  test('is abandoned if the client disconnects after the upstream accepted the request', () => {
    const isAbandoned = (isAccepted: boolean, isTimedOut = false) => {
      const client = new AbortController();
      const call = new UpstreamCall(new DeadlineWatcher(), client.signal);
      call.bind({ cancel: () => undefined, isAccepted });
      if (isTimedOut) call.fire();
      const isAbandonedBefore = call.isAbandoned;
      client.abort();
      return [isAbandonedBefore, call.isAbandoned];
    };
    expect(isAbandoned(true)).toEqual([false, true]);
    expect(isAbandoned(false)).toEqual([false, false]);
    // The timeout is ours, even if the client disconnects right after it.
    expect(isAbandoned(true, true)).toEqual([false, false]);
  });

  test('ignores a disconnect once it has been released', () => {
    const client = new AbortController();
    const call = new UpstreamCall(new DeadlineWatcher(), client.signal);
    call.release();
    client.abort();
    expect(call.signal.aborted).toBe(false);
  });

  test('can be canceled twice', () => {
    const call = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
    call.cancel();
    call.cancel();
    expect([call.signal.aborted, call.timedOut]).toEqual([true, false]);
  });
});
