/**
 * Price tiers for long prompts, with charges computed by hand. Above 200,000 tokens, input costs 4
 * credits instead of 2, output 18 instead of 12, and cached input 0.4 instead of 0.2.
 */
import { describe, expect, test } from 'bun:test';
import { fc } from '../../../tests/support/random.ts';
import type { ChatRequestInfo } from '../../core/request-info.ts';
import { noUsage, type Usage } from '../../core/usage.ts';
import { ChatBounds, FixedBounds, firstHoldTokens, inputBound } from './bounds.ts';
import { chargeAt, costOf, modelCharge } from './cost.ts';
import { readPriceList } from './price-list.ts';

const creditsPerUsd = 1_000_000;
const base = { prompt: '2', completion: '12', cache_read: '0.2', cache_write: '2.5' };
const tier = { above_tokens: 200_000, prompt: '4', completion: '18', cache_read: '0.4' };
const prices = readPriceList({ ...base, long_prompts: [tier] });

function usageOf(inputTokens: number, cacheReadTokens = 0, cacheWriteTokens = 0): Usage {
  return { inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens: 10, reasoningTokens: 4 };
}

function requestInfo(
  inputBytes: number,
  outputTokensMax: number | null,
  images = 0,
): ChatRequestInfo {
  const image = { param: 'messages[0]', url: '' };
  return {
    inputBytes,
    outputTokensMax,
    choices: 1,
    images: Array.from({ length: images }, () => image),
  } as Partial<ChatRequestInfo> as ChatRequestInfo;
}

describe('costOf with tiers', () => {
  const charge = (usage: Usage) => modelCharge(costOf(usage, prices), creditsPerUsd);

  test('charges a prompt at the limit like a short one', () => {
    expect(charge(usageOf(200_000))).toBe(400_000 + 120);
  });

  test("charges the whole request at the tier's prices 1 token above the limit", () => {
    expect(charge(usageOf(200_001))).toBe(800_004 + 180);
  });

  test('counts cache reads and writes toward the length', () => {
    // 1 × 2 + 199,999 × 0.2 + 120 = 40,121.8
    expect(charge(usageOf(1, 199_999))).toBe(40_122);
    // 1 × 4 + 200,000 × 0.4 + 180; the tier doesn't change cache writes.
    expect(charge(usageOf(1, 200_000))).toBe(80_184);
    expect(charge(usageOf(1, 0, 200_000))).toBe(4 + 500_000 + 180);
    // 100,000 × 4 + 50,000 × 0.4 + 50,001 × 2.5 + 180 = 545,182.5
    expect(charge(usageOf(100_000, 50_000, 50_001))).toBe(545_183);
  });

  test("counts 1-hour cache writes toward the length and charges them at the tier's price", () => {
    const hour = { cache_write_1h: '4' };
    const charged = (tokens: number, more = {}) => {
      const list = readPriceList({ ...base, ...hour, long_prompts: [{ ...tier, ...more }] });
      const usage = { ...usageOf(1, 0, 50_000), cacheWrite1hTokens: tokens };
      return modelCharge(costOf(usage, list), creditsPerUsd);
    };
    // 1 × 2 + 50,000 × 2.5 + 149,999 × 4 + 120: a prompt of 200,000.
    expect(charged(149_999)).toBe(725_118);
    // 1 × 4 + 50,000 × 2.5 + 150,000 × 8 + 180
    expect(charged(150_000, { cache_write_1h: '8' })).toBe(1_325_184);
    // The tier doesn't change this price.
    expect(charged(150_000)).toBe(4 + 125_000 + 600_000 + 180);
  });

  test("counts audio toward the length and charges it at the tier's price", () => {
    const charged = (tokens: number, more = {}) => {
      const list = readPriceList({ ...base, audio: '5', long_prompts: [{ ...tier, ...more }] });
      return modelCharge(costOf({ ...usageOf(1), inputAudioTokens: tokens }, list), creditsPerUsd);
    };
    // A prompt of 200,000: 1 × 2 + 199,999 × 5 + 120.
    expect(charged(199_999)).toBe(1_000_117);
    // 1 × 4 + 200,000 × 7 + 180, or × 5 if the tier doesn't change the price.
    expect([charged(200_000, { audio: '7' }), charged(200_000)]).toEqual([1_400_184, 1_000_184]);
  });

  test('does not count output toward the length', () => {
    const usage = { ...usageOf(200_000), outputTokens: 300_000 };
    expect(charge(usage)).toBe(400_000 + 3_600_000);
  });

  test('selects the tier for each of several calls and rounds once', () => {
    const calls = [usageOf(150_000), usageOf(0, 250_001)];
    const usage = { ...usageOf(150_000, 250_001), outputTokens: 20 };
    // 300,000 + 120, then 100,000.4 + 180.
    expect(modelCharge(costOf(usage, prices, { calls }), creditsPerUsd)).toBe(400_301);
  });

  test('computes the platform fee from the exact cost', () => {
    const own = { ownAccount: { feeBasisPoints: 500 } };
    // 5% of 800,184 and of 400,120.
    expect(chargeAt(own, costOf(usageOf(200_001), prices), creditsPerUsd)).toBe(40_010);
    expect(chargeAt(own, costOf(usageOf(200_000), prices), creditsPerUsd)).toBe(20_006);
  });

  test('does not change prices per image and per request', () => {
    const list = readPriceList({ request: '0.001', image: '0.002', long_prompts: [tier] });
    const cost = costOf(usageOf(200_001), list, { inputImages: 2 });
    expect(modelCharge(cost, creditsPerUsd)).toBe(1_000 + 4_000 + 800_004 + 180);
  });
});

describe('bounds with tiers', () => {
  const offer = { prices, model: {} };
  // 3 bytes count as one token.
  const [within, beyond] = [requestInfo(600_000, 100), requestInfo(600_001, 100)];

  test("use the tier's prices if the prompt may exceed its limit", () => {
    // Input may be written to the cache, which costs 2.5.
    expect(new ChatBounds(within).boundFor([offer], creditsPerUsd)).toEqual({
      requested: 500_000 + 1_200,
      minimum: 500_000 + 16 * 12,
      maximum: 500_000 + 1_200,
    });
    expect(new ChatBounds(beyond).boundFor([offer], creditsPerUsd)).toEqual({
      requested: 800_004 + 1_800,
      minimum: 800_004 + 16 * 18,
      maximum: 800_004 + 1_800,
    });
  });

  test('count images toward the length', () => {
    const withImage = requestInfo(594_003, 100, 1);
    expect(inputBound(withImage)).toBe(200_001);
    expect(new ChatBounds(withImage).boundFor([offer], creditsPerUsd).requested).toBe(
      800_004 + 1_800,
    );
  });

  test("allow less output and request larger extensions at the tier's prices", async () => {
    const cap = (request: ChatRequestInfo, credits: number) =>
      new ChatBounds(request).capWithin(credits, offer, creditsPerUsd);
    expect(cap(within, 500_000 + 12 * 50)).toBe(50);
    expect(cap(beyond, 800_004 + 18 * 50 + 17)).toBe(50);
    const nextAt = async (request: ChatRequestInfo, credits: number) => {
      const tracker = new ChatBounds(request).trackHold(offer, null, credits, creditsPerUsd);
      const { promise, resolve } = Promise.withResolvers<number>();
      await tracker.extend(async (requested) => {
        resolve(requested);
        return requested;
      });
      return promise;
    };
    // 100 tokens are held; an upstream that continues ignores the cap.
    expect(await nextAt(within, 500_000 + 1_200)).toBe(4_096 * 12);
    expect(await nextAt(beyond, 800_004 + 1_800)).toBe(4_096 * 18);
  });

  test('cover the most expensive offer, with tiers or without', () => {
    const flat = { prices: readPriceList({ prompt: '3', completion: '3' }), model: {} };
    expect(new ChatBounds(within).boundFor([offer, flat], creditsPerUsd).requested).toBe(
      600_000 + 300,
    );
    expect(new ChatBounds(beyond).boundFor([flat, offer], creditsPerUsd).requested).toBe(
      800_004 + 1_800,
    );
  });

  test('do not use a cheaper tier, because the prompt may be shorter', () => {
    const discount = { above_tokens: 200_000, prompt: '1', cache_write: '1', completion: '1' };
    const list = readPriceList({ ...base, long_prompts: [discount] });
    expect(
      new ChatBounds(beyond).boundFor([{ prices: list, model: {} }], creditsPerUsd).requested,
    ).toBe(
      // 200,001 × 2.5 + 1,200 = 501,202.5
      501_203,
    );
  });

  test('use tiers also if the usage is known in advance', () => {
    const bound = (inputTokens: number) => {
      const bounds = new FixedBounds({ usage: { ...noUsage, inputTokens }, units: {} });
      return bounds.boundFor([offer], creditsPerUsd).requested;
    };
    expect([bound(200_000), bound(200_001)]).toEqual([400_000, 800_004]);
  });
});

test('ChatBounds holds at least what a request within its bounds costs', () => {
  const price = fc.nat(50_000_000).map((millionths) => (millionths / 1_000_000).toFixed(6));
  const some = fc.option(price, { nil: undefined });
  const tokens = { prompt: some, completion: some, cache_read: some, cache_write: some };
  const defined = <T extends object>(value: T) =>
    Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined));
  const tiers = fc
    .uniqueArray(fc.record({ above_tokens: fc.integer({ min: 1, max: 3_000 }), ...tokens }), {
      maxLength: 4,
      selector: (tier) => tier.above_tokens,
    })
    .map((list) => list.sort((a, b) => a.above_tokens - b.above_tokens).map(defined));
  const flat = fc.record({ ...tokens, request: some, image: some }).map(defined);
  const cuts = fc.array(fc.nat(10_000), { minLength: 4, maxLength: 4 });
  const fee = fc.option(fc.nat(20_000), { nil: null });
  const request = fc.record({
    bytes: fc.nat(12_000),
    images: fc.nat(1),
    cap: fc.option(fc.integer({ min: 1, max: 9_000 }), { nil: null }),
  });
  fc.assert(
    fc.property(
      flat,
      tiers,
      request,
      cuts,
      fee,
      (texts, long, { bytes, images, cap }, at, points) => {
        const list = readPriceList({ ...texts, long_prompts: long as never });
        const own = points === null ? null : { feeBasisPoints: points };
        const offer = { prices: list, model: {}, ownAccount: own };
        const request = requestInfo(bytes, cap, images);
        const [of, read, written, out] = at.map((part) => part / 10_000);
        const prompt = Math.floor(inputBound(request) * (of ?? 0));
        const cacheReadTokens = Math.floor(prompt * (read ?? 0));
        const cacheWriteTokens = Math.floor((prompt - cacheReadTokens) * (written ?? 0));
        const usage = {
          inputTokens: prompt - cacheReadTokens - cacheWriteTokens,
          cacheReadTokens,
          cacheWriteTokens,
          outputTokens: Math.floor(firstHoldTokens(request, offer) * (out ?? 0)),
          reasoningTokens: 0,
        };
        const units = images > 0 ? { inputImages: images } : {};
        const charge = chargeAt(offer, costOf(usage, list, units), creditsPerUsd);
        expect(charge).toBeLessThanOrEqual(
          new ChatBounds(request).boundFor([offer], creditsPerUsd).requested,
        );
      },
    ),
    { numRuns: 2_000 },
  );
});
