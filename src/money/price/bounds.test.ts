import { describe, expect, test } from 'bun:test';
import { chatRequestInfo } from '../../../tests/support/prompts.ts';
import type { ChatRequestInfo } from '../../core/request-info.ts';
import { noUsage } from '../../core/usage.ts';
import type { HoldTracker } from './bounds.ts';
import { ChatBounds, FixedBounds, inputBound, type PricedOffer, textBytes } from './bounds.ts';
import { readPriceList, readPrices } from './price-list.ts';

const creditsPerUsd = 1_000_000;

/** Prices are in dollars per million tokens, which equals credits per token. */
function offer(
  prompt: string,
  completion: string,
  more: Record<string, string> = {},
  outputTokensMax = 16_384,
) {
  const prices = readPrices({ prompt, completion, ...more });
  return { prices, model: { max_completion_tokens: outputTokensMax } };
}

describe('ChatBounds.defaultCapFor', () => {
  const capOf = (model: PricedOffer['model'], request = chatRequestInfo()) =>
    new ChatBounds(request).defaultCapFor({ ...offer('1', '2'), model });

  test('returns the cap of a model that the operator configured', () => {
    expect(capOf({ max_completion_tokens: 16_384 })).toBe(16_384);
    expect(
      capOf({ max_completion_tokens: 16_384 }, chatRequestInfo({ outputTokensMax: 9 })),
    ).toBeNull();
  });

  test('returns null for a model of the shipped catalog', () => {
    const builtIn = { max_completion_tokens: 16_384, isBuiltIn: true as const };
    expect(capOf(builtIn)).toBeNull();
  });

  test('returns null if the cap does not fit in the context together with the prompt', () => {
    const within = (context_length: number) =>
      capOf({ max_completion_tokens: 16_384, context_length });
    expect([within(16_484), within(16_483)]).toEqual([16_384, null]);
  });
});

describe('ChatBounds.boundFor', () => {
  test('covers the input and the first 4,096 output tokens, or the lowest cap', () => {
    const at = (request: ChatRequestInfo, outputTokensMax?: number) =>
      new ChatBounds(request).boundFor([offer('1', '2', {}, outputTokensMax)], creditsPerUsd);
    expect(at(chatRequestInfo())).toEqual({
      requested: 100 + 4_096 * 2,
      minimum: 100 + 16 * 2,
      maximum: 100 + 16_384 * 2,
    });
    expect(at(chatRequestInfo({ outputTokensMax: 64_000 }))).toMatchObject({
      requested: 100 + 4_096 * 2,
      maximum: 100 + 16_384 * 2,
    });
    expect(at(chatRequestInfo({ outputTokensMax: 10 }))).toEqual({
      requested: 120,
      minimum: 120,
      maximum: 120,
    });
    expect(at(chatRequestInfo(), 50).requested).toBe(100 + 50 * 2);
    expect(at(chatRequestInfo({ outputTokensMax: 10, choices: 3 })).requested).toBe(
      100 + 3 * 10 * 2,
    );
  });

  test('takes the most expensive offer for each amount', () => {
    const request = chatRequestInfo({ outputTokensMax: 100 });
    const offers = [offer('10', '1'), offer('1', '20')];
    for (const ordered of [offers, offers.toReversed()]) {
      expect(new ChatBounds(request).boundFor(ordered, creditsPerUsd)).toEqual({
        requested: 100 + 100 * 20,
        minimum: 1_000 + 16,
        maximum: 100 + 100 * 20,
      });
    }
  });

  test('charges input at the highest price that may apply', () => {
    const request = chatRequestInfo({ outputTokensMax: 1 });
    const written = offer('2', '0', { cache_write: '2.5', cache_read: '0.2' });
    expect(new ChatBounds(request).boundFor([written], creditsPerUsd).requested).toBe(250);
    const freeUntilWritten = offer('0', '0', { cache_write: '1' });
    expect(new ChatBounds(request).boundFor([freeUntilWritten], creditsPerUsd).requested).toBe(100);
  });

  test('uses the 1-hour cache price only for requests that cache for an hour', () => {
    const prices = offer('3', '0', { cache_write: '3.75', cache_write_1h: '6' });
    const at = (usesLongCacheTtl: boolean, pricedOffer = prices) => {
      const request = chatRequestInfo({
        outputTokensMax: 1,
        usesLongCacheTtl: () => usesLongCacheTtl,
      });
      return new ChatBounds(request).boundFor([pricedOffer], creditsPerUsd).requested;
    };
    expect([at(false), at(true), at(false)]).toEqual([375, 600, 375]);
    expect(at(true, offer('3', '0', { cache_write: '3.75' }))).toBe(375);
    expect(at(true, offer('3', '0', { cache_write: '3.75', cache_write_1h: '1' }))).toBe(375);
    const base = { prompt: '3', completion: '0', cache_write: '3.75', cache_write_1h: '1' };
    const long_prompts = [{ above_tokens: 99, cache_write_1h: '9' }];
    const withTier = { ...prices, prices: readPriceList({ ...base, long_prompts }) };
    expect([at(false, withTier), at(true, withTier)]).toEqual([375, 900]);
  });

  test('uses the audio price only for requests with audio, for a tenth of the tokens', () => {
    const audioPrices = { cache_write: '3.75', cache_write_1h: '6', audio: '50' };
    const at = (audio: boolean, usesLongCacheTtl: boolean, more: object = audioPrices) => {
      const needs = { ...chatRequestInfo().needs, audio };
      const request = chatRequestInfo({
        outputTokensMax: 1,
        needs,
        usesLongCacheTtl: () => usesLongCacheTtl,
      });
      const prices = readPriceList({ prompt: '3', completion: '0', ...more });
      return new ChatBounds(request).boundFor([{ prices, model: {} }], creditsPerUsd).requested;
    };
    expect([at(false, false), at(true, false), at(true, true)]).toEqual([375, 500, 600]);
    expect(at(true, true, { ...audioPrices, audio: '90' })).toBe(900);
    expect(at(false, true, { ...audioPrices, audio: '90' })).toBe(600);
    // The same bytes cost more as text.
    expect(at(true, false, { audio: '29' })).toBe(300);
    // The lowest price isn't rounded to 0.
    expect(at(true, false, { prompt: '0', audio: '0.000000001' })).toBe(1);
    // 100 tokens are above 99.
    const long_prompts = [{ above_tokens: 99, audio: '80' }];
    expect([at(true, false, { long_prompts }), at(false, false, { long_prompts })]).toEqual([
      800, 300,
    ]);
  });

  test('rounds up, and returns 0 for free offers', () => {
    const request = chatRequestInfo({ outputTokensMax: 1, inputBytes: 3 });
    expect(new ChatBounds(request).boundFor([offer('0.001', '0')], creditsPerUsd).requested).toBe(
      1,
    );
    expect(new ChatBounds(request).boundFor([offer('0', '0')], creditsPerUsd)).toEqual({
      requested: 0,
      minimum: 0,
      maximum: 0,
    });
  });

  test('counts images by number and not by their bytes', () => {
    const url = `data:image/png;base64,${'A'.repeat(9_000)}`;
    const image = { param: 'messages[0]', url };
    const request = chatRequestInfo({ inputBytes: 300 + url.length, images: [image] });
    expect(textBytes(request)).toBe(300);
    expect(inputBound(request)).toBe(100 + 2_000);
    const priced = offer('0', '0', { image: '0.001' });
    expect(new ChatBounds(request).boundFor([priced], creditsPerUsd).requested).toBe(1_000);
  });

  test('includes the price of the request itself', () => {
    const request = chatRequestInfo({ outputTokensMax: 1 });
    expect(
      new ChatBounds(request).boundFor([offer('0', '0', { request: '0.01' })], creditsPerUsd)
        .requested,
    ).toBe(10_000);
  });
});

describe('ChatBounds.capWithin', () => {
  test('returns the most output tokens that the credits pay for', () => {
    const bounds = new ChatBounds(chatRequestInfo());
    const at = (credits: number) => bounds.capWithin(credits, offer('1', '2'), creditsPerUsd);
    expect([at(99), at(100), at(101), at(102), at(500)]).toEqual([0, 0, 0, 1, 200]);
    expect(at(1_000_000)).toBe(16_384);
  });

  test('divides the affordable output by the number of choices', () => {
    const bounds = new ChatBounds(chatRequestInfo({ choices: 4 }));
    expect(bounds.capWithin(500, offer('1', '2'), creditsPerUsd)).toBe(50);
  });
});

describe('HoldTracker', () => {
  // 100 prompt tokens, plus 0.5 dollars per request.
  const fixed = 100 + 500_000;
  const priced = offer('1', '2', { request: '0.5' });
  const trackerFor = (
    request: Partial<ChatRequestInfo>,
    cap: number | null = null,
    credits = fixed + 4_096 * 2,
  ) => new ChatBounds(chatRequestInfo(request)).trackHold(priced, cap, credits, creditsPerUsd);

  /** Returns whether the hold was extended, and the requested extensions. */
  async function extended(tracker: HoldTracker, left = Number.POSITIVE_INFINITY) {
    const extensions: { requested: number; minimum: number }[] = [];
    const isCovered = await tracker.extend(async (requested, minimum) => {
      extensions.push({ requested, minimum });
      return left < minimum ? null : Math.min(left, requested);
    });
    return [isCovered, ...extensions];
  }

  test('allows only as much text as the held tokens certainly cover', () => {
    expect(trackerFor({}).charactersMax).toBe(12_288);
    expect(trackerFor({ choices: 2 }).charactersMax).toBe(24_576);
  });

  test('allows more text if the upstream has an output cap', () => {
    expect(trackerFor({ outputTokensMax: 100 }).charactersMax).toBe(800);
    expect(trackerFor({ outputTokensMax: 4_096 }).charactersMax).toBe(32_768);
    expect(trackerFor({ outputTokensMax: 4_097 }).charactersMax).toBe(12_288);
    expect(trackerFor({}, 50).charactersMax).toBe(400);
  });

  test('extends the hold in parts until it covers the whole output', async () => {
    const tracker = trackerFor({ outputTokensMax: 5_000 });
    // 904 tokens are left; an extension covers at least 16.
    expect(await extended(tracker, 31)).toEqual([false, { requested: 904 * 2, minimum: 16 * 2 }]);
    expect(await extended(tracker, 904)).toEqual([true, { requested: 904 * 2, minimum: 16 * 2 }]);
    expect(tracker.charactersMax).toBe((4_096 + 452) * 3);
    expect(await extended(tracker)).toEqual([true, { requested: 452 * 2, minimum: 16 * 2 }]);
    expect(tracker.charactersMax).toBe(5_000 * 8);
    // An upstream that continues ignores the cap.
    expect(await extended(tracker)).toEqual([true, { requested: 4_096 * 2, minimum: 16 * 2 }]);
  });

  test('extends the hold by less than 16 tokens if no more can follow', async () => {
    const tracker = trackerFor({ outputTokensMax: 4_097 });
    expect(await extended(tracker)).toEqual([true, { requested: 2, minimum: 2 }]);
    expect(tracker.charactersMax).toBe(4_097 * 8);
  });

  test('rounds the cost of all parts of the output only once', async () => {
    const cheap = offer('0.1', '0.3', {}, 10_000);
    // 10 + 1,228.8 credits are held as 1,239; the entire output costs 10 + 3,000.
    const tracker = new ChatBounds(chatRequestInfo()).trackHold(cheap, null, 1_239, creditsPerUsd);
    let left = 3_010 - 1_239;
    while (tracker.charactersMax < 10_000 * 8) {
      const isCovered = await tracker.extend(async (requested) => {
        left -= requested;
        return left < 0 ? null : requested;
      });
      expect(isCovered).toBe(true);
    }
    expect(left).toBe(0);
  });

  test('requests nothing while credits held for a more expensive offer suffice', async () => {
    const tracker = trackerFor({ outputTokensMax: 10_000 }, 6_000, fixed + 5_000 * 2);
    expect(await extended(tracker, 0)).toEqual([true]);
    expect(tracker.charactersMax).toBe(5_000 * 3);
    expect(await extended(tracker)).toEqual([true, { requested: 1_000 * 2, minimum: 16 * 2 }]);
    expect(tracker.charactersMax).toBe(6_000 * 8);
  });

  test('allows unlimited free output, one part at a time', async () => {
    const tracker = new ChatBounds(chatRequestInfo()).trackHold(
      { prices: readPrices({ prompt: '1', completion: '0' }), model: {} },
      null,
      100,
      creditsPerUsd,
    );
    expect(await extended(tracker)).toEqual([true]);
    expect(tracker.charactersMax).toBe(2 * 12_288);
  });
});

describe('FixedBounds.boundFor', () => {
  const bounds = (inputTokens: number) =>
    new FixedBounds({ usage: { ...noUsage, inputTokens }, units: {} });

  test('requires the whole price of the most expensive offer', () => {
    const offers = [offer('1', '0'), offer('3', '0'), offer('2', '0')];
    expect(bounds(100).boundFor(offers, creditsPerUsd)).toEqual({
      requested: 300,
      minimum: 300,
      maximum: 300,
    });
  });

  test('returns 0 for free offers', () => {
    expect(bounds(100).boundFor([offer('0', '0')], creditsPerUsd)).toEqual({
      requested: 0,
      minimum: 0,
      maximum: 0,
    });
  });
});

describe('tokensMaxFor', () => {
  test('returns 4 times the tokens that were held, and 32,768 more', () => {
    const usage = { ...noUsage, inputTokens: 1_000, outputTokens: 500 };
    expect(new FixedBounds({ usage, units: {} }).tokensMaxFor()).toBe(38_768);
  });

  test("returns 16 times a chat model's context, which is at least 128,000", () => {
    const chat = new ChatBounds(chatRequestInfo());
    const tokens = (model: object) => chat.tokensMaxFor({ ...offer('1', '1'), model });
    expect(tokens({ context_length: 8_000, max_completion_tokens: 9_000 })).toBe(2_048_000);
    expect(tokens({ context_length: 200_000, max_completion_tokens: 2_000 })).toBe(3_200_000);
    expect(tokens({ context_length: 8_000, max_completion_tokens: 150_000 })).toBe(2_400_000);
    expect(tokens({})).toBe(16_000_000);
  });
});
