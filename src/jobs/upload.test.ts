import { describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { wavFile } from '../../tests/support/audio-files.ts';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import { storeAudio, storeText } from './upload.ts';

/** Returns the error for the client if storing its input fails with this error. */
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

describe('job uploads', () => {
  test('reports a full or unreachable storage as 503', async () => {
    const full = Object.assign(new Error('no space left'), { code: 'ENOSPC' });
    const failure = await failureWith(full);
    expect(failure).toBeInstanceOf(GatewayError);
    expect(failure).toMatchObject({
      symbol: 'service_unavailable',
      retryAfterSeconds: 5,
      cause: full,
    });
  });

  test('returns an error that the client caused unchanged', async () => {
    const rejection = invalidRequest('file is too long.', 'file', 413);
    expect(await failureWith(rejection)).toBe(rejection);
  });

  test('detects the file type and stores all bytes, even from chunks of 1 byte', async () => {
    const content = wavFile(1).subarray(0, 200);
    const stored: Uint8Array[] = [];
    const registered: unknown[] = [];
    const nothing = async () => undefined;
    const storage = {
      put: async (_: string, chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>) => {
        for await (const chunk of chunks) stored.push(chunk);
        return stored.reduce((sum, { length }) => sum + length, 0);
      },
      open: nothing,
      delete: nothing,
      link: () => '',
    };
    const objects = {
      register: async (...args: unknown[]) => void registered.push(args),
      releaseUnused: async () => true,
      unregister: nothing,
    };
    async function* chunks() {
      for (const byte of content) yield Uint8Array.of(byte);
    }
    const named = { kind: 'file', name: 'file', filename: 'a.wav' } as const;
    const file = { ...named, chunks: chunks() };
    const { key, bytes, sha256 } = await storeAudio(file, 'job_1', 1_000, { storage, objects });
    expect(key).toEndWith('.wav');
    expect([bytes, Buffer.concat(stored)]).toEqual([200, Buffer.from(content)]);
    expect(sha256).toBe(createHash('sha256').update(content).digest('hex'));
    // If no job is created from it, the sweep deletes it after a day.
    expect(registered).toEqual([[key, 'job_1', 1_000 + 86_400_000]]);
  });
});
