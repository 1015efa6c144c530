import { describe, expect, test } from 'bun:test';
import type { Balance, CreditService, CreditStore } from './credits.ts';
import { changeCredits, changeWithRecall } from './credits.ts';

const correction = { tenantId: 't', amount: -5, note: '', idempotencyKey: null, now: 0 };
const entry = { ...correction, id: 1, kind: 'correction', balance: 0, createdAt: 0 } as const;

/** Books a correction while credits are leased. The store returns these outcomes in turn. */
async function change(leased: number | undefined, ...outcomes: ('booked' | 'insufficient')[]) {
  const requests: string[] = [];
  const credits: Pick<CreditStore, 'change' | 'balance'> = {
    change: async ({ tenantId }) => {
      requests.push(`change ${tenantId}`);
      if (outcomes.shift() === 'booked') return { kind: 'booked', entry };
      return { kind: 'insufficient' };
    },
    balance: async () => (leased === undefined ? undefined : { balance: leased, leased, held: 0 }),
  };
  const recall = async (tenantId: string) => {
    requests.push(`recall ${tenantId}`);
  };
  const { kind } = await changeWithRecall(credits, correction, recall);
  return [kind, ...requests];
}

describe('changeWithRecall', () => {
  test('recalls nothing if the change is booked at once', async () => {
    expect(await change(50, 'booked')).toEqual(['booked', 'change t']);
  });

  test('fails at once if no credits are leased', async () => {
    expect(await change(0, 'insufficient')).toEqual(['insufficient', 'change t']);
    expect(await change(undefined, 'insufficient')).toEqual(['insufficient', 'change t']);
  });

  test('recalls leased credits once and retries until the change is booked', async () => {
    expect(await change(50, 'insufficient', 'insufficient', 'booked')).toEqual([
      ...['booked', 'change t', 'recall t', 'change t', 'change t'],
    ]);
  });

  test('gives up if the leased credits are not returned', async () => {
    const retries = Array.from({ length: 5 }, () => 'change t');
    expect(await change(50)).toEqual(['insufficient', 'change t', 'recall t', ...retries]);
  });
});

describe('changeCredits, if the store takes too few credits,', () => {
  async function rejectionOf(amount: number, balance: Balance): Promise<unknown> {
    const service = {
      directory: { getTenant: async (id: string) => ({ id }) },
      credits: { change: async () => ({ kind: 'insufficient' }), balance: async () => balance },
      now: () => 0,
    };
    const changing = changeCredits(service as unknown as CreditService, 'acme', { amount });
    return changing.catch((error: unknown) => error);
  }

  test('rejects a correction larger than what no running request holds', async () => {
    const wallet = { balance: 50, leased: 40, held: 10 };
    expect(await rejectionOf(-41, wallet)).toMatchObject({
      symbol: 'invalid_request_error',
      param: 'amount',
      message: 'The wallet has 40 credits available; the correction takes 41 credits.',
    });
  });

  test('responds 503 while processes have leased available credits', async () => {
    const wallet = { balance: 50, leased: 40, held: 10 };
    expect(await rejectionOf(-40, wallet)).toMatchObject({
      symbol: 'service_unavailable',
      retryAfterSeconds: 30,
      message:
        "The wallet has 40 credits available, but gateway processes haven't returned enough of " +
        'them. Try again in 30 s.',
    });
  });
});
