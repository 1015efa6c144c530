import { expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { publicOnly } from './guard/address-guard.ts';
import type { Link } from './link.ts';
import { tryCrossing } from './try-offer.ts';

test('a client that leaves while its images are fetched ends the fetching', async () => {
  const client = new AbortController();
  const isOver: (boolean | undefined)[] = [];
  const fetchGuarded: Link['fetchGuarded'] = async (_url, call) => {
    isOver.push(call?.signal?.aborted);
    client.abort();
    isOver.push(call?.signal?.aborted);
    return { ok: false, reason: 'It was broken off.' };
  };
  const image = { url: 'https://pictures.example/cat.png', param: 'messages.0' };
  const order = {
    ask: { images: [image] },
    offer: { quirks: { remote_images: 'inline' } },
    link: { client: client.signal, addressPolicy: publicOnly, fetchGuarded },
  } as unknown as Parameters<typeof tryCrossing>[0];
  await failureOf(tryCrossing(order));
  expect(isOver).toEqual([false, true]);
});
