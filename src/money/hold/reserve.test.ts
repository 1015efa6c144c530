import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../../tests/support/money/settlements.ts';
import type { Call, Operation } from '../../call.ts';
import { GatewayError } from '../../core/errors.ts';
import type { ChatRequestInfo } from '../../core/request-info.ts';
import { noUsage } from '../../core/usage.ts';
import type { Offer } from '../../route/catalog.ts';
import { ChatBounds, type CostBounds, FixedBounds } from '../price/bounds.ts';
import { readPrices } from '../price/price-list.ts';
import type { DispatchedRequest } from '../settle/journal-files.ts';
import type { Hold } from './hold.ts';
import { reserve } from './reserve.ts';
import type { HoldAmounts } from './wallets.ts';

/** 300 bytes are 100 tokens at most; without a cap, 4,096 tokens out are held. */
const request = {
  operationName: 'chat',
  models: ['acme/first', 'acme/second'],
  inputBytes: 300,
  outputTokensMax: null,
  choices: 1,
  images: [],
  stream: true,
  cachesForHour: () => false,
} as Partial<ChatRequestInfo> as ChatRequestInfo;
const call = {
  requestId: 'r',
  caller: callerOf('ten_1', { keyId: 'key_1' }),
  receivedAt: 5,
} as Partial<Call> as Call;

/** Credits for a token out; input is free. */
function offer(completion: string, feeBasisPoints?: number): Offer {
  const own = feeBasisPoints === undefined ? null : { feeBasisPoints };
  const prices = readPrices({ prompt: '0', completion });
  return { prices, model: {}, own } as Partial<Offer> as Offer;
}

/** A desk that has so many credits, and what was asked of it. */
function reserveWith(
  credits: number,
  isJournalFull = false,
  chatRequest = request,
  bounds: CostBounds = new ChatBounds(chatRequest),
) {
  const orders: HoldAmounts[] = [];
  const settled: number[] = [];
  const written: DispatchedRequest[] = [];
  const requestedReaches: number[] = [];
  const deps = {
    creditsPerUsd: 1_000_000,
    hold: async (_call: Call, order: HoldAmounts): Promise<Hold> => {
      orders.push(order);
      if (order.minimum > credits) throw new GatewayError('insufficient_credits', 'Too little.');
      const held = Math.min(credits, order.requested);
      let left = credits - held;
      return {
        credits: held,
        keyAccount: null,
        settled: false,
        maxCredits: (enough) => {
          requestedReaches.push(enough);
          return credits;
        },
        extend: async (more, least = more) => {
          if (left < least) return null;
          const extended = Math.min(more, left);
          left -= extended;
          return extended;
        },
        settle: (charge) => {
          settled.push(charge);
          return { wallet: charge, key: 0 };
        },
      };
    },
    dispatched: async (line: DispatchedRequest) => {
      if (isJournalFull) throw new Error('full');
      written.push(line);
    },
  };
  const operation = { request: chatRequest, bounds } as Partial<Operation> as Operation;
  const ordered = (...plan: Offer[]) => reserve(call, operation, plan, deps);
  return { ordered, orders, settled, written, requestedReaches };
}

const refusal = async (reserving: Promise<unknown>) => {
  const error: unknown = await reserving.catch((reason: unknown) => reason);
  return error instanceof GatewayError ? error.symbol : error;
};

describe('credits are set aside', () => {
  test('for the dearest offer, and the request is in the journal before it is sent', async () => {
    const { ordered, orders, written } = reserveWith(1_000_000);
    const plan = [offer('1'), offer('2')];
    const reservation = await ordered(...plan);
    expect(orders).toMatchObject([{ requested: 8_192, minimum: 32 }]);
    expect(reservation.offers).toEqual(plan);
    expect(written).toEqual([
      {
        requestId: 'r',
        tenantId: 'ten_1',
        keyId: 'key_1',
        operation: 'chat',
        requestedModel: 'acme/first',
        streamed: true,
        createdAt: 5,
      },
    ]);
  });

  test('for the caller’s own accounts alone where it cannot pay for the shared ones', async () => {
    // Five in a hundred of 2 × 16 credits are 1.6.
    const { ordered, orders } = reserveWith(2);
    const own = offer('2', 500);
    const reservation = await ordered(own, offer('2'));
    expect(orders.map(({ minimum: least }) => least)).toEqual([32, 2]);
    expect(reservation.offers).toEqual([own]);
  });

  test('or the request is refused, after one try', async () => {
    for (const plan of [[offer('2'), offer('3')], [offer('2', 10_000)]]) {
      const { ordered, orders, written } = reserveWith(2);
      expect(await refusal(ordered(...plan))).toBe('insufficient_credits');
      expect([orders.length, written.length]).toEqual([1, 0]);
    }
  });

  test('and all given back when the journal cannot be written', async () => {
    const { ordered, settled } = reserveWith(1_000, true);
    expect(await refusal(ordered(offer('1')))).toBe('service_unavailable');
    expect(settled).toEqual([0]);
  });
});

test('how far the wallet reaches is asked only where the first hold may be too small', async () => {
  const chatRequest = { ...request, outputTokensMax: 5_000 };
  for (const [credits, currentRequest, reach] of [
    // 4,096 tokens at two credits are held of 5,000.
    [8_192, chatRequest, [10_000]],
    [8_191, chatRequest, []],
    [1_000_000, { ...request, outputTokensMax: 100 }, []],
  ] as const) {
    const { ordered, requestedReaches } = reserveWith(credits, false, currentRequest);
    await ordered(offer('2'));
    expect(requestedReaches).toEqual([...reach]);
  }
});

test('an answer whose price is known beforehand may be as long as it likes', async () => {
  const bounds = new FixedBounds({ usage: { ...noUsage, inputTokens: 1 }, units: {} });
  const one = offer('2');
  const reservation = await reserveWith(1_000, false, request, bounds).ordered(one);
  const budget = reservation.budgetFor(one);
  expect([reservation.capFor(one), budget.charactersMax]).toEqual([null, Number.POSITIVE_INFINITY]);
  expect(await budget.extend()).toBe(true);
});

test('an answer ends at sixteen times what its model takes, whoever pays for it', async () => {
  const large = { ...offer('2'), model: { context_length: 200_000 } } as Offer;
  const reservation = await reserveWith(1_000_000).ordered(large);
  // Three characters a token.
  expect(reservation.budgetFor(large).charactersEnd).toBe(200_000 * 16 * 3);
});

test('where credits set no cap, the operator’s is sent', async () => {
  const short = { ...offer('2'), model: { max_completion_tokens: 500 } } as Offer;
  const reservation = await reserveWith(1_000_000).ordered(short);
  expect([reservation.capFor(short), reservation.defaultCapFor(short)]).toEqual([null, 500]);
});

describe('an output cap', () => {
  const capped = { ...request, outputTokensMax: 30_000 };
  const reserved = (credits: number, ...plan: Offer[]) => {
    const { ordered } = reserveWith(credits, false, capped);
    return ordered(...plan);
  };

  test('is lowered to what the wallet has in all, though the hold is for less', async () => {
    const one = offer('2');
    const reservation = await reserved(20_000, one);
    expect(reservation.hold.credits).toBe(8_192);
    expect(reservation.capFor(one)).toBe(10_000);
    expect((await reserved(60_000, one)).capFor(one)).toBeNull();
  });

  test('is lowered only where an offer is too dear', async () => {
    const [dear, cheap] = [offer('2'), offer('1')];
    const reservation = await reserved(40_000, dear, cheap);
    expect([dear, cheap].map((each) => reservation.capFor(each))).toEqual([20_000, null]);
  });

  test('that is lowered lets an answer grow to it, and leaves nothing unused', async () => {
    const one = offer('2');
    const budget = (await reserved(20_000, one)).budgetFor(one);
    const grown = [budget.charactersMax];
    while (await budget.extend()) grown.push(budget.charactersMax);
    // 4,096 and 4,096 and 1,808 tokens; then all that may come is paid for.
    expect(grown).toEqual([12_288, 24_576, 80_000]);
  });
});

describe('with a hold that is smaller than wanted', () => {
  test('an offer gets a cap only if the hold is too small for it', async () => {
    const [dear, cheap] = [offer('2'), offer('1')];
    const { ordered } = reserveWith(4_096);
    const reservation = await ordered(dear, cheap);
    expect([dear, cheap].map((one) => reservation.capFor(one))).toEqual([2_048, null]);
    const full = await reserveWith(8_192).ordered(dear, cheap);
    expect([dear, cheap].map((one) => full.capFor(one))).toEqual([null, null]);
  });

  test('an answer grows by what can be set aside, or not at all', async () => {
    const one = offer('1');
    for (const [credits, isMore, characters] of [
      [8_192, true, 24_576],
      // 904 tokens more, at three characters each.
      [5_000, true, 15_000],
      [4_112, true, 12_336],
      // Sixteen tokens are the least that is worth anything.
      [4_111, false, 12_288],
      // 4,000 tokens are what it was told to stop at: eight characters each are more than that.
      [4_000, false, 32_000],
    ] as const) {
      const budget = (await reserveWith(credits).ordered(one)).budgetFor(one);
      expect([await budget.extend(), budget.charactersMax]).toEqual([isMore, characters]);
    }
  });
});
