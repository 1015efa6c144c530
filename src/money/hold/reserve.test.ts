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

/** 300 bytes count as 100 tokens. Without a cap, 4,096 output tokens are held. */
const request = {
  operationName: 'chat',
  models: ['acme/first', 'acme/second'],
  inputBytes: 300,
  outputTokensMax: null,
  choices: 1,
  images: [],
  stream: true,
  usesLongCacheTtl: () => false,
} as Partial<ChatRequestInfo> as ChatRequestInfo;
const call = {
  requestId: 'r',
  caller: callerOf('ten_1', { keyId: 'key_1' }),
  receivedAt: 5,
} as Partial<Call> as Call;

/** An offer with this price per output token. Input is free. */
function offer(completion: string, feeBasisPoints?: number): Offer {
  const ownAccount = feeBasisPoints === undefined ? null : { feeBasisPoints };
  const prices = readPrices({ prompt: '0', completion });
  return { prices, model: {}, ownAccount } as Partial<Offer> as Offer;
}

/** Reserves from an account with this many credits and records the calls. */
function reserveWith(
  credits: number,
  isJournalFull = false,
  chatRequest = request,
  bounds: CostBounds = new ChatBounds(chatRequest),
  isPaid = false,
) {
  const holds: HoldAmounts[] = [];
  const settled: number[] = [];
  const written: DispatchedRequest[] = [];
  const maxCreditsCalls: number[] = [];
  const deps = {
    creditsPerUsd: 1_000_000,
    hold: async (_call: Call, amounts: HoldAmounts): Promise<Hold> => {
      holds.push(amounts);
      if (amounts.minimum > credits) throw new GatewayError('insufficient_credits', 'Too little.');
      const held = Math.min(credits, amounts.requested);
      let left = credits - held;
      return {
        credits: held,
        keyAccount: null,
        settled: false,
        maxCredits: (enough) => {
          maxCreditsCalls.push(enough);
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
  const paid = { ...call, recordingSession: { inFlight: { isPaid } } } as Call;
  const reserved = (...plan: Offer[]) => reserve(isPaid ? paid : call, operation, plan, deps);
  return { reserved, holds, settled, written, maxCreditsCalls };
}

const rejection = async (reserving: Promise<unknown>) => {
  const error: unknown = await reserving.catch((reason: unknown) => reason);
  return error instanceof GatewayError ? error.symbol : error;
};

describe('reserve', () => {
  test('holds credits for the most expensive offer and journals the request', async () => {
    const { reserved, holds, written } = reserveWith(1_000_000);
    const plan = [offer('1'), offer('2')];
    const reservation = await reserved(...plan);
    expect(holds).toMatchObject([{ requested: 8_192, minimum: 32 }]);
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

  test("uses only the caller's own provider keys if credits do not cover shared capacity", async () => {
    // 5% of 2 × 16 credits is 1.6.
    const { reserved, holds } = reserveWith(2);
    const own = offer('2', 500);
    const reservation = await reserved(own, offer('2'));
    expect(holds.map(({ minimum: least }) => least)).toEqual([32, 2]);
    expect(reservation.offers).toEqual([own]);
  });

  test('rejects the request after one try if no own provider key could serve it', async () => {
    for (const plan of [[offer('2'), offer('3')], [offer('2', 10_000)]]) {
      const { reserved, holds, written } = reserveWith(2);
      expect(await rejection(reserved(...plan))).toBe('insufficient_credits');
      expect([holds.length, written.length]).toEqual([1, 0]);
    }
  });

  test('holds nothing for an answer that was charged before but lost', async () => {
    const one = { ...offer('2'), model: { max_completion_tokens: 500 } } as Offer;
    const { reserved, holds, written } = reserveWith(0, false, request, undefined, true);
    const reservation = await reserved(one);
    expect(holds).toEqual([{ requested: 0, minimum: 0, maximum: 0 } as HoldAmounts]);
    expect(written).toHaveLength(1);
    expect([reservation.capFor(one), reservation.defaultCapFor(one)]).toEqual([null, 500]);
    expect(reservation.budgetFor(one).charactersMax).toBe(Number.POSITIVE_INFINITY);
  });

  test('releases the hold if the journal cannot be written', async () => {
    const { reserved, settled } = reserveWith(1_000, true);
    expect(await rejection(reserved(offer('1')))).toBe('service_unavailable');
    expect(settled).toEqual([0]);
  });
});

test('reserve reads the available credits only if the first hold may be too small', async () => {
  const chatRequest = { ...request, outputTokensMax: 5_000 };
  for (const [credits, currentRequest, reach] of [
    // 4,096 of 5,000 tokens are held, at 2 credits each.
    [8_192, chatRequest, [10_000]],
    [8_191, chatRequest, []],
    [1_000_000, { ...request, outputTokensMax: 100 }, []],
  ] as const) {
    const { reserved, maxCreditsCalls } = reserveWith(credits, false, currentRequest);
    await reserved(offer('2'));
    expect(maxCreditsCalls).toEqual([...reach]);
  }
});

test('Reservation does not limit answers whose price is known in advance', async () => {
  const bounds = new FixedBounds({ usage: { ...noUsage, inputTokens: 1 }, units: {} });
  const one = offer('2');
  const reservation = await reserveWith(1_000, false, request, bounds).reserved(one);
  const budget = reservation.budgetFor(one);
  expect([reservation.capFor(one), budget.charactersMax]).toEqual([null, Number.POSITIVE_INFINITY]);
  expect(await budget.extend()).toBe(true);
});

test("Reservation ends an answer at 16 times its model's context", async () => {
  const large = { ...offer('2'), model: { context_length: 200_000 } } as Offer;
  const reservation = await reserveWith(1_000_000).reserved(large);
  // 3 characters per token.
  expect(reservation.budgetFor(large).charactersHardLimit).toBe(200_000 * 16 * 3);
});

test("Reservation returns the operator's cap if the credits require no lower cap", async () => {
  const short = { ...offer('2'), model: { max_completion_tokens: 500 } } as Offer;
  const reservation = await reserveWith(1_000_000).reserved(short);
  expect([reservation.capFor(short), reservation.defaultCapFor(short)]).toEqual([null, 500]);
});

describe('Reservation.capFor', () => {
  const capped = { ...request, outputTokensMax: 30_000 };
  const reserved = (credits: number, ...plan: Offer[]) => {
    const { reserved } = reserveWith(credits, false, capped);
    return reserved(...plan);
  };

  test('lowers the cap to what the entire wallet, not only the hold, can pay for', async () => {
    const one = offer('2');
    const reservation = await reserved(20_000, one);
    expect(reservation.hold.credits).toBe(8_192);
    expect(reservation.capFor(one)).toBe(10_000);
    expect((await reserved(60_000, one)).capFor(one)).toBeNull();
  });

  test('lowers the cap only for offers that are too expensive', async () => {
    const [expensive, cheap] = [offer('2'), offer('1')];
    const reservation = await reserved(40_000, expensive, cheap);
    expect([expensive, cheap].map((each) => reservation.capFor(each))).toEqual([20_000, null]);
  });

  test('lets an answer grow to a lowered cap and use all credits', async () => {
    const one = offer('2');
    const budget = (await reserved(20_000, one)).budgetFor(one);
    const grown = [budget.charactersMax];
    while (await budget.extend()) grown.push(budget.charactersMax);
    // 4,096 + 4,096 + 1,808 tokens. The hold then covers the entire output.
    expect(grown).toEqual([12_288, 24_576, 80_000]);
  });
});

describe('Reservation with a hold smaller than requested', () => {
  test('caps only offers for which the hold is too small', async () => {
    const [expensive, cheap] = [offer('2'), offer('1')];
    const { reserved } = reserveWith(4_096);
    const reservation = await reserved(expensive, cheap);
    expect([expensive, cheap].map((one) => reservation.capFor(one))).toEqual([2_048, null]);
    const full = await reserveWith(8_192).reserved(expensive, cheap);
    expect([expensive, cheap].map((one) => full.capFor(one))).toEqual([null, null]);
  });

  test('extends the hold by what is left, or not at all', async () => {
    const one = offer('1');
    for (const [credits, isMore, characters] of [
      [8_192, true, 24_576],
      // 904 more tokens, at 3 characters each.
      [5_000, true, 15_000],
      [4_112, true, 12_336],
      // An extension covers at least 16 tokens.
      [4_111, false, 12_288],
      // The upstream's cap is 4,000 tokens, and no answer has more than 8 characters per token.
      [4_000, false, 32_000],
    ] as const) {
      const budget = (await reserveWith(credits).reserved(one)).budgetFor(one);
      expect([await budget.extend(), budget.charactersMax]).toEqual([isMore, characters]);
    }
  });
});
