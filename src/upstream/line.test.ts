import { describe, expect, test } from 'bun:test';
import { Watch } from '../core/watch.ts';
import { Line } from './line.ts';

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

describe('a line', () => {
  test('hangs up when nothing was heard in time', async () => {
    const line = new Line(new Watch(), new AbortController().signal);
    line.expectWithin(50);
    await aborted(line.signal);
    expect([line.timedOut, line.clientLeft]).toEqual([true, false]);
  });

  test('waits as long as it takes while it is relaxed', async () => {
    const line = new Line(new Watch(), new AbortController().signal);
    line.expectWithin(50);
    line.relax();
    await Bun.sleep(250);
    expect(line.signal.aborted).toBe(false);
    line.hangUp();
  });

  test('hangs up when the whole takes too long, however lively it is', async () => {
    const line = new Line(new Watch(), new AbortController().signal, 50);
    line.expectWithin(60_000);
    line.relax();
    line.expectWithin(60_000);
    await aborted(line.signal);
    expect(line.timedOut).toBe(true);
  });

  test('hangs up on a client that takes nothing for too long', async () => {
    const line = new Line(new Watch(), new AbortController().signal, 60_000, 50);
    line.relax();
    await aborted(line.signal);
    expect(line.timedOut).toBe(true);
  });

  test('hangs up when the client leaves, or has left before', () => {
    const client = new AbortController();
    const line = new Line(new Watch(), client.signal);
    expect(line.signal.aborted).toBe(false);
    client.abort();
    expect([line.signal.aborted, line.timedOut]).toEqual([true, false]);
    const late = new Line(new Watch(), client.signal);
    expect(late.signal.aborted).toBe(true);
    line.hangUp();
    late.hangUp();
  });

  test('hangs up when the process has to go, or had to before', () => {
    const watch = new Watch();
    const client = new AbortController().signal;
    const line = new Line(watch, client);
    watch.end();
    const late = new Line(watch, client);
    for (const each of [line, late]) {
      expect([each.signal.aborted, each.isShuttingDown, each.timedOut]).toEqual([
        true,
        true,
        false,
      ]);
      each.hangUp();
    }
  });

  test('outlives its client for as long as somebody reads on', async () => {
    const reader = { lingerMs: 100 };
    const client = new AbortController();
    const line = new Line(new Watch(), client.signal);
    line.expectWithin(60_000);
    line.outliveClientFor(reader);
    client.abort();
    expect(line.signal.aborted).toBe(false);
    await aborted(line.signal);
    expect(line.clientLeft).toBe(true);
  });

  test('hangs up at once when nobody reads on', () => {
    const client = new AbortController();
    const line = new Line(new Watch(), client.signal);
    line.outliveClientFor({ lingerMs: 0 });
    client.abort();
    expect(line.signal.aborted).toBe(true);
    line.hangUp();
  });

  test('ends the call with it, at once where it has hung up, and never when released', () => {
    const ended: string[] = [];
    const call = (name: string) => ({ cancel: () => void ended.push(name) });
    const line = () => new Line(new Watch(), new AbortController().signal);
    const [held, late, released] = [line(), line(), line()];
    held.bind(call('held'));
    released.bind(call('released'));
    expect(ended).toEqual([]);
    for (const each of [held, late]) each.hangUp();
    late.bind(call('late'));
    released.release();
    expect(ended).toEqual(['held', 'late']);
  });

  test('leaves the connection alone once it was released', () => {
    const client = new AbortController();
    const line = new Line(new Watch(), client.signal);
    line.release();
    client.abort();
    expect(line.signal.aborted).toBe(false);
  });

  test('may be hung up twice', () => {
    const line = new Line(new Watch(), new AbortController().signal);
    line.hangUp();
    line.hangUp();
    expect([line.signal.aborted, line.timedOut]).toEqual([true, false]);
  });
});
