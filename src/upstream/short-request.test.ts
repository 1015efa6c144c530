import { afterAll, expect, test } from 'bun:test';
import { offerCalled } from '../../tests/support/offers.ts';
import { within } from '../../tests/support/wait-until.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { sendShortRequest } from './short-request.ts';

/** Resolves when the client has canceled the endless answer. */
const canceled = Promise.withResolvers<string>();
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  // The server must not close idle connections.
  idleTimeout: 0,
  routes: {
    '/count': () => new Response('x'.repeat(16_384), { status: 429 }),
    '/long': () => new Response('x'.repeat(16_385)),
    '/packed': () => new Response('x', { headers: { 'content-encoding': 'br' } }),
    '/endless': () =>
      new Response(
        new ReadableStream({
          pull: (controller) => controller.enqueue('x'.repeat(1_000)),
          cancel: () => canceled.resolve('canceled'),
        }),
      ),
  },
});
afterAll(() => server.stop(true));

function request(path: string) {
  const timeouts = { timeoutMs: 30_000, idleTimeoutMs: 30_000 };
  const offer = offerCalled('model', { baseUrl: `http://127.0.0.1:${server.port}`, ...timeouts });
  const reject = async () => ({ ok: false as const, reason: 'This test uses no such address.' });
  return sendShortRequest(offer, { path, body: '{}' }, new AbortController().signal, {
    deadlines: new DeadlineWatcher(),
    checkAddress: reject,
  });
}

test('sendShortRequest returns an answer of any status up to 16,384 characters', async () => {
  expect(await request('/count')).toEqual({ status: 429, text: 'x'.repeat(16_384) });
  expect(await request('/long')).toBeUndefined();
  expect(await request('/packed')).toBeUndefined();
});

test('sendShortRequest cancels an endless answer', async () => {
  expect(await request('/endless')).toBeUndefined();
  expect(await within(canceled.promise, 'the request to be canceled')).toBe('canceled');
});
