import { expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import type { AttemptContext } from './attempt.ts';
import { attemptWithAdapter } from './chat-attempt.ts';
import { publicOnly } from './guard/address-policy.ts';

test('attemptWithAdapter aborts image downloads when the client disconnects', async () => {
  const client = new AbortController();
  const isAborted: (boolean | undefined)[] = [];
  const fetchGuarded: AttemptContext['fetchGuarded'] = async (_url, call) => {
    isAborted.push(call?.signal?.aborted);
    client.abort();
    isAborted.push(call?.signal?.aborted);
    return { ok: false, reason: 'The request was canceled.' };
  };
  const image = { url: 'https://pictures.example/cat.png', param: 'messages.0' };
  const options = {
    request: { images: [image] },
    offer: { quirks: { remote_images: 'inline' } },
    context: { clientSignal: client.signal, addressPolicy: publicOnly, fetchGuarded },
  } as unknown as Parameters<typeof attemptWithAdapter>[0];
  await failureOf(attemptWithAdapter(options));
  expect(isAborted).toEqual([false, true]);
});
