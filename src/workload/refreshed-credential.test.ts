import { describe, expect, test } from 'bun:test';
import {
  RefreshedCredential,
  type TemporaryCredential,
  WorkloadError,
} from './refreshed-credential.ts';

const minute = 60_000;

/** A credential whose loads are answered one after another by the test. */
function scripted() {
  const clock = { now: 1_000_000_000 };
  const loads: PromiseWithResolvers<TemporaryCredential>[] = [];
  const load = () => {
    const answer = Promise.withResolvers<TemporaryCredential>();
    loads.push(answer);
    return answer.promise;
  };
  const credential = new RefreshedCredential(load, () => clock.now);
  const answer = (minutes: number) => {
    const fresh = { expiresAt: clock.now + minutes * minute, secrets: [] };
    loads.at(-1)?.resolve(fresh);
    return fresh;
  };
  const fail = () => loads.at(-1)?.reject(new WorkloadError('Step failed (status 500).'));
  return { clock, loads, credential, answer, fail };
}

describe('RefreshedCredential', () => {
  test('shares one refresh between requests, and none while the credential is fresh', async () => {
    const { credential, loads, answer } = scripted();
    const waiting = Array.from({ length: 20 }, () => credential.get());
    const fresh = answer(60);
    expect(new Set(await Promise.all(waiting))).toEqual(new Set([fresh]));
    expect(await credential.get()).toBe(fresh);
    expect(loads).toHaveLength(1);
  });

  test('refreshes 4 minutes early without making requests wait, and at the end makes them wait', async () => {
    const { clock, credential, loads, answer } = scripted();
    const first = credential.get();
    const old = answer(60);
    await first;
    clock.now += 56 * minute;
    expect(await credential.get()).toBe(old);
    expect(await credential.get()).toBe(old);
    expect(loads).toHaveLength(2);
    clock.now += 3.5 * minute;
    const waiting = credential.get();
    const fresh = answer(60);
    expect(await waiting).toBe(fresh);
    expect(loads).toHaveLength(2);
  });

  test('after a failure, waits 1 s, then 2 s, up to a minute, before the next refresh', async () => {
    const { clock, credential, loads, answer, fail } = scripted();
    const waits = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000];
    for (const [i, wait] of waits.entries()) {
      const waiting = credential.get();
      fail();
      await expect(waiting).rejects.toThrow('Step failed (status 500).');
      clock.now += wait - 1;
      await expect(credential.get()).rejects.toThrow('Step failed (status 500).');
      expect(loads).toHaveLength(i + 1);
      clock.now += 1;
    }
    const waiting = credential.get();
    const fresh = answer(60);
    expect(await waiting).toBe(fresh);
  });

  test('after a success, waits only 1 s after the next failure', async () => {
    const { clock, credential, loads, answer, fail } = scripted();
    const attempt = async (end: () => unknown) => {
      const waiting = credential.get().catch(() => undefined);
      end();
      await waiting;
    };
    await attempt(fail);
    clock.now += 1_000;
    await attempt(() => answer(60));
    clock.now += 60 * minute;
    await attempt(fail);
    clock.now += 1_000;
    await attempt(fail);
    expect(loads).toHaveLength(4);
  });

  test('requests a short-lived credential again only after 10 seconds', async () => {
    const { clock, credential, loads, answer } = scripted();
    const first = credential.get();
    const short = answer(3);
    await first;
    clock.now += 9_999;
    expect(await credential.get()).toBe(short);
    expect(loads).toHaveLength(1);
    clock.now += 1;
    expect(await credential.get()).toBe(short);
    expect(loads).toHaveLength(2);
  });

  test('keeps using a valid credential while refreshes fail', async () => {
    const { clock, credential, loads, answer, fail } = scripted();
    const first = credential.get();
    const old = answer(60);
    await first;
    clock.now += 57 * minute;
    expect(await credential.get()).toBe(old);
    fail();
    await loads[1]?.promise.catch(() => undefined);
    expect(await credential.get()).toBe(old);
  });

  test.each([0, 0.5])('rejects a credential that expires in %d minutes', async (minutes) => {
    const { credential, answer } = scripted();
    const waiting = credential.get();
    answer(minutes);
    await expect(waiting).rejects.toThrow('The credentials that were returned have expired.');
  });

  test('a request stops waiting when its signal aborts', async () => {
    const { credential, answer } = scripted();
    const abort = new AbortController();
    const waiting = credential.get(abort.signal);
    abort.abort(new Error('Too late.'));
    await expect(waiting).rejects.toThrow('Too late.');
    const fresh = answer(60);
    expect(await credential.get()).toBe(fresh);
  });

  test('replaces a rejected credential, unless it is less than a minute old', async () => {
    const { clock, credential, answer } = scripted();
    const first = credential.get();
    const old = answer(60);
    await first;
    expect(credential.rejected(old)).toBe(false);
    clock.now += minute;
    expect(credential.rejected(old)).toBe(true);
    const waiting = credential.get();
    const fresh = answer(60);
    expect(await waiting).toBe(fresh);
    expect(credential.rejected(old)).toBe(true);
  });

  test('refreshes after the clock was set back', async () => {
    const { clock, credential, loads, answer, fail } = scripted();
    const failing = credential.get().catch(() => undefined);
    fail();
    await failing;
    clock.now -= 180 * minute;
    const waiting = credential.get();
    const old = answer(60);
    expect(await waiting).toBe(old);
    clock.now -= 180 * minute;
    expect(credential.rejected(old)).toBe(true);
    const again = credential.get();
    const fresh = answer(60);
    expect(await again).toBe(fresh);
    expect(loads).toHaveLength(3);
  });
});
