import { afterAll, afterEach, describe, expect, test } from 'bun:test';
import {
  hangBeforeHeaders,
  hangMidStream,
  json,
  replay,
  startFakeUpstream,
} from '../../../tests/support/fake-upstream.ts';
import { opaquePng } from '../../../tests/support/images.ts';
import { offerCalled } from '../../../tests/support/offers.ts';
import { DeadlineWatcher } from '../../core/deadlines.ts';
import { GatewayError } from '../../core/errors.ts';
import { noUsage } from '../../core/usage.ts';
import { readImagesRequest } from '../../dialects/openai-media/images.ts';
import { readPrices } from '../../money/price/price-list.ts';
import type { Offer } from '../../route/catalog.ts';
import type { AttemptContext } from '../../upstream/attempt.ts';
import { publicOnly } from '../../upstream/guard/address-policy.ts';
import { createGuardedFetch, type GuardedResult } from '../../upstream/guard/guarded-fetch.ts';
import { ImagesOperation } from './images-operation.ts';

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

function contextWith(fetched: GuardedResult, requested: string[] = []): AttemptContext {
  return {
    identity: { id: 'chatcmpl-1', model: 'test/image', provider: 'fake', created: 1 },
    tenantId: 'acme',
    outputTokensMax: null,
    openBy: Number.POSITIVE_INFINITY,
    clientSignal: new AbortController().signal,
    deadlines: new DeadlineWatcher(),
    fetchGuarded: async (url) => {
      requested.push(url);
      return fetched;
    },
    inlineImages: async () => new Map(),
    reportDropped() {},
    reserveMemory() {},
    releaseMemory() {},
    extendHold: async () => true,
    spendableCredits: async (enough) => enough,
    checkAddress: async () => ({ isAllowed: true }) as never,
    addressPolicy: publicOnly,
  };
}

const options = () => readImagesRequest({ model: 'test/image', prompt: 'a cat' });
const notFetched: GuardedResult = { ok: false, reason: 'The address is private.' };

describe('ImagesOperation.tryAt', () => {
  test.each([
    ['does not respond', hangBeforeHeaders()],
    ['stops in the middle of its answer', hangMidStream(1)],
  ])('times out if the provider %s', async (_, behavior) => {
    upstream.script('gpt-image', behavior);
    const operation = new ImagesOperation(options(), [], null, 300);
    const result = await operation.tryAt(offer(), contextWith(notFetched));
    expect(result).toMatchObject({ kind: 'failed', failure: { kind: 'timeout' } });
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
  });

  test("fetches an image from its URL and keeps the URL if it isn't an image", async () => {
    const url = 'https://pictures.example/cat.png';
    const found = (bytes: Uint8Array, status = 200): GuardedResult => ({
      ok: true,
      status,
      contentType: 'image/png',
      bytes: bytes as Uint8Array<ArrayBuffer>,
    });
    const png = opaquePng(3, 2);
    const cases: readonly [GuardedResult, object][] = [
      [found(png), { b64_json: Buffer.from(png).toString('base64') }],
      [found(png, 404), { url }],
      [found(Buffer.from('<html>expired</html>')), { url }],
      [notFetched, { url }],
    ];
    for (const [fetched, image] of cases) {
      upstream.script('gpt-image', json(200, { data: [{ url, revised_prompt: 'A cat.' }] }));
      const requested: string[] = [];
      const result = await new ImagesOperation(options()).tryAt(
        offer(),
        contextWith(fetched, requested),
      );
      if (result.kind !== 'reply') throw new Error(`Expected a reply, got ${result.kind}.`);
      const usage = result.reply.metrics.usage;
      expect([requested, usage]).toEqual([[url], undefined]);
      const reported = JSON.parse(result.reply.write({ usage: noUsage, costCredits: 0 }));
      expect(reported.data).toEqual([{ ...image, revised_prompt: 'A cat.' }]);
    }
  });
});

describe('image URL inside the private network', () => {
  async function imagesAt(
    url: string,
    at: Offer,
    reserveMemory: AttemptContext['reserveMemory'] = () => undefined,
  ): Promise<unknown> {
    upstream.script('gpt-image', json(200, { data: [{ url }] }));
    upstream.script('/cat.png', replay(opaquePng(3, 2), { contentType: 'image/png' }));
    const context = {
      ...contextWith(notFetched),
      reserveMemory,
      fetchGuarded: (url: string, call: Parameters<AttemptContext['fetchGuarded']>[1]) =>
        createGuardedFetch()(url, { ...call, tenantId: 'acme' }),
      checkAddress: async (text: string) => ({
        ok: true as const,
        target: { url: new URL(text), pinnedUrls: [new URL(text)] },
      }),
    };
    const result = await new ImagesOperation(options()).tryAt(at, context);
    if (result.kind !== 'reply') throw new Error(`Expected a reply, got ${result.kind}.`);
    return JSON.parse(result.reply.write({ usage: noUsage, costCredits: 0 })).data;
  }
  const base64 = Buffer.from(opaquePng(3, 2)).toString('base64');
  const bytes = [{ b64_json: base64 }];

  test("is fetched from the operator's server", async () => {
    expect(await imagesAt(`${upstream.url}/cat.png`, offer())).toEqual(bytes);
  });

  test('is returned itself if there is no memory for the image as base64', async () => {
    const url = `${upstream.url}/cat.png`;
    const reserved: number[] = [];
    const reserve = (bytes: number) => reserved.push(bytes);
    expect(await imagesAt(url, offer(), reserve)).toEqual(bytes);
    expect(reserved).toEqual([base64.length]);
    const full = () => {
      throw new GatewayError('service_unavailable', 'Full.');
    };
    expect(await imagesAt(url, offer(), full)).toEqual([{ url }]);
  });

  test("is not fetched from another port or from a tenant's server", async () => {
    const other = startFakeUpstream();
    const own = { credentialVersion: 't', feeBasisPoints: 0, isUserUrl: true, sharedNext: null };
    for (const [home, at] of [
      [other.url, offer()],
      [upstream.url, { ...offer(), ownAccount: own }],
    ] as const) {
      const url = `${home}/cat.png`;
      expect(await imagesAt(url, at)).toEqual([{ url }]);
    }
    const fetched = [...upstream.requests, ...other.requests].filter(
      ({ path }) => path === '/cat.png',
    );
    other.stop();
    expect(fetched).toEqual([]);
  });
});

describe('ImagesOperation.bounds', () => {
  const held = (fields: object, prices: object) =>
    new ImagesOperation(
      readImagesRequest({ model: 'a/b', prompt: 'a cat', ...fields }),
    ).bounds.boundFor([{ prices: readPrices({ ...prices }), model: {} }], 1_000_000).requested;

  test('holds the flat price, or the price of the most tokens for the quality', () => {
    expect(held({}, { output_image: '0.04' })).toBe(40_000);
    // 5 bytes count as 2 tokens at $2 per million. The output is 2,048 or 16,384 tokens at $40 per
    // million.
    expect(held({ quality: 'low' }, { prompt: '2', completion: '40' })).toBe(4 + 81_920);
    expect(held({}, { prompt: '2', completion: '40' })).toBe(4 + 655_360);
  });
});
