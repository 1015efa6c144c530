import { afterAll, afterEach, describe, expect, test } from 'bun:test';
import {
  hangBeforeHeaders,
  hangMidStream,
  json,
  replay,
  startFakeUpstream,
} from '../../tests/support/fake-upstream.ts';
import { offerCalled } from '../../tests/support/offers.ts';
import { picture } from '../../tests/support/pictures.ts';
import { readPrices } from '../core/prices.ts';
import { noUsage } from '../core/usage.ts';
import { Watch } from '../core/watch.ts';
import { readImagesRequest } from '../dialects/openai/media/images-request.ts';
import type { Offer } from '../route/catalogue.ts';
import { publicOnly } from '../upstream/guard/address-guard.ts';
import { createGuardedFetch, type GuardedResult } from '../upstream/guard/guarded-fetch.ts';
import type { Link } from '../upstream/link.ts';
import { ImagesErrand } from './images.ts';

const upstream = startFakeUpstream();
afterAll(() => upstream.stop());
afterEach(() => upstream.reset());

const pricing = { output_image: '0.04' };

function offer(): Offer {
  const timeouts = { timeoutMs: 3_600_000, idleTimeoutMs: 3_600_000 };
  return {
    ...offerCalled('gpt-image', { baseUrl: `${upstream.url}/v1`, ...timeouts }),
    prices: readPrices(pricing),
    pricing,
  };
}

function linkWith(fetched: GuardedResult, asked: string[] = []): Link {
  return {
    identity: { id: 'chatcmpl-1', model: 'test/image', provider: 'fake', created: 1 },
    outputTokensMax: null,
    client: new AbortController().signal,
    watch: new Watch(),
    fetchGuarded: async (url) => {
      asked.push(url);
      return fetched;
    },
    tellDropped() {},
    claimRoom() {},
    leaveRoom() {},
    extendHold: async () => true,
    reach: async (enough) => enough,
    checkAddress: async () => ({ isAllowed: true }) as never,
    addressPolicy: publicOnly,
  };
}

const wish = () => readImagesRequest({ model: 'test/image', prompt: 'a cat' });
const nothing: GuardedResult = { ok: false, reason: 'The address is private.' };

describe('an attempt at an image', () => {
  test.each([
    ['does not answer', hangBeforeHeaders()],
    ['stops in the middle of its answer', hangMidStream(1)],
  ])('ends when its time is over and the provider %s', async (_, behaviour) => {
    upstream.script('gpt-image', behaviour);
    const errand = new ImagesErrand(wish(), [], null, 300);
    const result = await errand.tryAt(offer(), linkWith(nothing));
    expect(result).toMatchObject({ kind: 'failed', failure: { kind: 'timeout' } });
    await upstream.until((book) => book.find(({ outcome }) => outcome === 'client-left'));
  });

  test('fetches a picture that came as an address; nothing else that lies there', async () => {
    const url = 'https://pictures.example/cat.png';
    const found = (bytes: Uint8Array, status = 200): GuardedResult => ({
      ok: true,
      status,
      contentType: 'image/png',
      bytes: bytes as Uint8Array<ArrayBuffer>,
    });
    const png = picture(3, 2);
    const cases: readonly [GuardedResult, object][] = [
      [found(png), { b64_json: Buffer.from(png).toString('base64') }],
      [found(png, 404), { url }],
      [found(Buffer.from('<html>expired</html>')), { url }],
      [nothing, { url }],
    ];
    for (const [fetched, image] of cases) {
      upstream.script('gpt-image', json(200, { data: [{ url, revised_prompt: 'A cat.' }] }));
      const asked: string[] = [];
      const result = await new ImagesErrand(wish()).tryAt(offer(), linkWith(fetched, asked));
      if (result.kind !== 'reply') throw new Error(`There is no reply but ${result.kind}.`);
      const usage = result.relay.facts.usage;
      expect([asked, usage]).toEqual([[url], undefined]);
      const told = JSON.parse(result.relay.write({ usage: noUsage, costCredits: 0 }));
      expect(told.data).toEqual([{ ...image, revised_prompt: 'A cat.' }]);
    }
  });
});

describe('a picture that came as an address inside the network', () => {
  async function drawnAt(url: string, at: Offer): Promise<unknown> {
    upstream.script('gpt-image', json(200, { data: [{ url }] }));
    upstream.script('/cat.png', replay(picture(3, 2), { contentType: 'image/png' }));
    const link = {
      ...linkWith(nothing),
      fetchGuarded: createGuardedFetch(),
      checkAddress: async (text: string) => ({ url: new URL(text), pinnedUrls: [new URL(text)] }),
    };
    const result = await new ImagesErrand(wish()).tryAt(at, link);
    if (result.kind !== 'reply') throw new Error(`There is no reply but ${result.kind}.`);
    return JSON.parse(result.relay.write({ usage: noUsage, costCredits: 0 })).data;
  }
  const bytes = [{ b64_json: Buffer.from(picture(3, 2)).toString('base64') }];

  test('is fetched where the operator’s server keeps it itself', async () => {
    expect(await drawnAt(`${upstream.url}/cat.png`, offer())).toEqual(bytes);
  });

  test('is left alone at any other port, and where a tenant named the server', async () => {
    const other = startFakeUpstream();
    const own = { scope: 't', feeBasisPoints: 0, isUserAddress: true, sharedNext: null };
    for (const [home, at] of [
      [other.url, offer()],
      [upstream.url, { ...offer(), own }],
    ] as const) {
      const url = `${home}/cat.png`;
      expect(await drawnAt(url, at)).toEqual([{ url }]);
    }
    const fetched = [...upstream.book, ...other.book].filter(({ path }) => path === '/cat.png');
    other.stop();
    expect(fetched).toEqual([]);
  });
});

describe('what is held before', () => {
  const held = (fields: object, prices: object) =>
    new ImagesErrand(readImagesRequest({ model: 'a/b', prompt: 'a cat', ...fields })).bounds.over(
      [{ prices: readPrices({ ...prices }), model: {} }],
      1_000_000,
    ).wanted;

  test('is the flat price, or the tokens that a picture of that quality may take', () => {
    expect(held({}, { output_image: '0.04' })).toBe(40_000);
    // Five bytes are two tokens at 2; 2,048 and 16,384 tokens out at 40.
    expect(held({ quality: 'low' }, { prompt: '2', completion: '40' })).toBe(4 + 81_920);
    expect(held({}, { prompt: '2', completion: '40' })).toBe(4 + 655_360);
  });
});
