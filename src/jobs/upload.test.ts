import { expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { wavFile } from '../../tests/support/audio-files.ts';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import { storeAudio, storeText } from './upload.ts';

/** What a client hears whose input meets a storage that fails so. */
function failureWith(error: Error): Promise<unknown> {
  const nothing = async () => undefined;
  const storage = {
    put: () => Promise.reject(error),
    open: nothing,
    delete: nothing,
    link: () => '',
  };
  const objects = { register: nothing, releaseUnused: async () => true, unregister: nothing };
  return failureOf(storeText('Hello.', 'job_1', 0, { storage, objects }));
}

test('a storage that is away or full is 503, not a failure of ours', async () => {
  const full = Object.assign(new Error('no space left'), { code: 'ENOSPC' });
  const failure = await failureWith(full);
  expect(failure).toBeInstanceOf(GatewayError);
  expect(failure).toMatchObject({
    symbol: 'service_unavailable',
    retryAfterSeconds: 5,
    cause: full,
  });
});

test('what the client did wrong is told as it is', async () => {
  const refusal = invalidRequest('file is too long.', 'file', 413);
  expect(await failureWith(refusal)).toBe(refusal);
});

test('a file is known by its first bytes and kept whole, however it is cut', async () => {
  const whole = wavFile(1).subarray(0, 200);
  const kept: Uint8Array[] = [];
  const noted: unknown[] = [];
  const nothing = async () => undefined;
  const storage = {
    put: async (_: string, chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>) => {
      for await (const chunk of chunks) kept.push(chunk);
      return kept.reduce((sum, { length }) => sum + length, 0);
    },
    open: nothing,
    delete: nothing,
    link: () => '',
  };
  const objects = {
    register: async (...register: unknown[]) => void noted.push(register),
    releaseUnused: async () => true,
    unregister: nothing,
  };
  async function* chunks() {
    for (const byte of whole) yield Uint8Array.of(byte);
  }
  const named = { kind: 'file', name: 'file', filename: 'a.wav' } as const;
  const file = { ...named, chunks: chunks() };
  const { key, bytes, sha256 } = await storeAudio(file, 'job_1', 1_000, { storage, objects });
  expect(key).toEndWith('.wav');
  expect([bytes, Buffer.concat(kept)]).toEqual([200, Buffer.from(whole)]);
  expect(sha256).toBe(createHash('sha256').update(whole).digest('hex'));
  // What becomes of no job is swept away a day later.
  expect(noted).toEqual([[key, 'job_1', 1_000 + 86_400_000]]);
});
