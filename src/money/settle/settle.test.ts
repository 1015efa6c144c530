import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../../tests/support/caller.ts';
import type { InFlightEntry } from '../../cache/in-flight-entry.ts';
import type { Call, Operation, RecordingSession, RequestOutcome } from '../../call.ts';
import { GatewayError } from '../../core/errors.ts';
import type { IdempotentAnswer } from '../../core/recording.ts';
import { type Measured, noUnits, noUsage, type Usage } from '../../core/usage.ts';
import type { Offer } from '../../route/catalog.ts';
import type { Opened } from '../../upstream/fallback.ts';
import { AnswerRecorder } from '../../upstream/recorder.ts';
import type { Hold } from '../hold/hold.ts';
import type { Settlement } from '../ledger.ts';
import { readPrices } from '../price/price-list.ts';
import { settle } from './settle.ts';

/** One credit a token in, two a token out. */
const pricing = { prompt: '1', completion: '2' };
const shared = {
  model: { id: 'acme/one' },
  provider: { name: 'acme' },
  prices: readPrices(pricing),
  pricing,
  own: null,
} as Partial<Offer> as Offer;
const own = { ...shared, own: { feeBasisPoints: 500 } } as Offer;

const tokens = (inputTokens: number, outputTokens: number): Usage => {
  return { ...noUsage, inputTokens, outputTokens };
};

const charged = (modelCharge: number) => {
  return { modelCharge, byokPlatformFee: 0, managedToolFee: 0, agentRuntimeFee: 0 };
};

const answer: IdempotentAnswer = {
  claim: { tenantId: 'ten_1', key: 'k', fingerprint: 'f', requestId: 'r' },
  recording: null,
  expiresAt: 1,
};

/** A wallet from which `most` can be taken in the end, under a limit that allows `ofKey`. */
function holdOf(credits: number, most = credits, ofKey = most) {
  let charged: number | undefined;
  const hold: Hold = {
    credits,
    keyAccount: 'key:k',
    get settled() {
      return charged !== undefined;
    },
    maxCredits: () => credits,
    extend: async () => null,
    async settle(charge) {
      charged = Math.min(charge, most);
      return { wallet: charged, key: Math.min(charged, ofKey) };
    },
  };
  return hold;
}

interface SettleCase {
  readonly measured?: Partial<Measured>;
  readonly hold?: Hold | undefined;
  readonly offer?: Offer;
  readonly kind?: 'complete' | 'interrupted' | 'client_disconnected';
  readonly error?: GatewayError;
  readonly recordingSession?: RecordingSession;
  readonly finishReason?: string | undefined;
  readonly attempts?: Call['attempts'];
  /** Refused before its body was read. */
  readonly isUnread?: true;
  readonly client?: AbortSignal;
}

/** A call that was answered, and all that was heard of it when it was settled. */
function settling(settleCase: SettleCase) {
  const {
    measured,
    hold,
    offer = shared,
    kind = 'complete',
    error,
    recordingSession,
    attempts = [],
  } = settleCase;
  const { finishReason = kind === 'interrupted' ? undefined : 'stop', isUnread } = settleCase;
  const { client = new AbortController().signal } = settleCase;
  const saved: { settlement: Settlement; wasDispatched: boolean; answer?: IdempotentAnswer }[] = [];
  const observed: string[] = [];
  const metrics = { finishReason, outputCharacters: 400, failure: undefined };
  const operation = {
    request: { operationName: 'chat', models: ['acme/asked', 'acme/one'], stream: true, user: 'u' },
    skills: ['terse'],
    bounds: { contextTokensFor: () => 1_000 },
    measure: ({ usage }: { usage: Usage | undefined }): Measured => ({
      usage: usage ?? tokens(1, 100),
      units: noUnits,
      isEstimate: usage === undefined,
      note: null,
      ...(usage && measured),
    }),
  } as unknown as Operation;
  const call = {
    requestId: 'r',
    caller: callerOf('ten_1'),
    client,
    receivedAt: 7,
    startedAt: -1_000_000,
    attempts,
    operationName: 'speech',
    requestedModel: 'acme/named',
    operation: isUnread ? undefined : operation,
    hold,
    recordingSession,
  } as Partial<Call> as Call;
  const usage = measured?.usage ?? tokens(100, 10);
  const opened = { offer, firstByteMs: 3 } as Partial<Opened> as Opened;
  const answered = {
    kind,
    opened,
    metrics: { usage, ...metrics },
    error: error ?? null,
  } as RequestOutcome;
  const deps = {
    creditsPerUsd: 1_000_000,
    saveSettlement: async (settlement: Settlement, wasDispatched: boolean) => {
      await Bun.sleep(0);
      saved.push({ settlement, wasDispatched });
    },
    saveWithAnswer: async (answer: IdempotentAnswer, settlement: Settlement) => {
      saved.push({ settlement, wasDispatched: true, answer });
      return 'written' as const;
    },
    countTokens: async (_caller: unknown, count: number) => {
      await Bun.sleep(0);
      observed.push(`${count} tokens`);
    },
    nameOf: (requested: string) => requested,
    // Ten tokens in a thousand seconds and a little.
    observeSpeed: (_offer: Offer, perSecond: number) =>
      observed.push(perSecond > 0.005 && perSecond <= 0.01 ? 'speed' : `${perSecond} a second`),
    observeEnd: (_offer: Offer, isComplete: boolean) =>
      observed.push(isComplete ? 'whole' : 'break'),
  };
  return { saved, observed, settle: (ending = answered) => settle(call, ending, deps) };
}

/** The bill, as it is kept. */
async function billOf(settleCase: SettleCase) {
  const { saved, settle } = settling(settleCase);
  const { costCredits } = await settle();
  const [only, ...more] = saved;
  if (!only || more.length > 0) throw new Error('One settlement was to be kept.');
  const { record, writtenOff, keyAccount, keyCharge } = only.settlement;
  return { ...record, costCredits, writtenOff, keyAccount, keyCharge };
}

describe('an answer', () => {
  test('costs its tokens; its client and its record get the same numbers', async () => {
    const { saved, observed, settle } = settling({ hold: holdOf(1_000) });
    expect(await settle()).toMatchObject({ usage: tokens(100, 10), costCredits: 120 });
    expect(observed).toEqual(['whole', 'speed', '110 tokens']);
    expect(saved).toMatchObject([{ wasDispatched: true, settlement: { writtenOff: 0 } }]);
    expect(saved[0]?.settlement).toMatchObject({ keyAccount: 'key:k', keyCharge: 120 });
    expect(saved[0]?.settlement.record).toMatchObject({
      charges: charged(120),
      model: 'acme/one',
      provider: 'acme',
      requestedModel: 'acme/asked',
      operation: 'chat',
      skills: ['terse'],
      units: undefined,
      trafficMode: 'shared',
      status: 'success',
      usageEstimated: false,
      prices: pricing,
      note: null,
      searches: 0,
      streamed: true,
      cancelled: false,
      finishReason: 'stop',
      endUser: 'u',
      createdAt: 7,
      firstByteMs: 3,
    });
    expect(saved[0]?.settlement.record.durationMs).toBeGreaterThanOrEqual(1_000_000);
  });

  test('that will be given again is charged together with its recording', async () => {
    const finish: InFlightEntry['finish'] = async (recording, charge) => {
      const first = { requestId: 'r', receivedAt: 7, usage: tokens(100, 10), costCredits: 120 };
      expect(recording?.first?.endedAt).toBeGreaterThan(1.7e12);
      expect([recording, saved]).toMatchObject([{ text: 'Words.', first }, []]);
      await charge?.saveWithAnswer(answer);
    };
    const inFlight = { finish, release: () => Promise.reject(new Error('It was answered.')) };
    const recordingSession = {
      recorder: { recording: () => ({ text: 'Words.' }) },
      inFlight,
    } as unknown as RecordingSession;
    const { saved, settle } = settling({ hold: holdOf(1_000), recordingSession });
    expect(await settle()).toMatchObject({ costCredits: 120 });
    expect(saved).toMatchObject([{ answer, settlement: { record: { charges: charged(120) } } }]);
  });

  test('that its client left is given up for the cache before it is charged', async () => {
    const order: string[] = [];
    const release = async () => {
      await Bun.sleep(5);
      order.push(`released, ${saved.length} charged`);
    };
    const recordingSession = { recorder: { recording: () => undefined }, inFlight: { release } };
    const { saved, settle } = settling({
      hold: holdOf(1_000),
      kind: 'client_disconnected',
      recordingSession: recordingSession as unknown as RecordingSession,
    });
    await settle();
    expect([order, saved.length]).toEqual([['released, 0 charged'], 1]);
  });

  test.each([
    { isForOthers: true, isCapped: true, finishReason: 'length', saved: null },
    { isForOthers: true, isCapped: true, finishReason: 'stop', saved: 'Words.' },
    { isForOthers: true, isCapped: false, finishReason: 'length', saved: 'Words.' },
    { isForOthers: false, isCapped: true, finishReason: 'length', saved: 'Words.' },
  ])(
    'that credits cut short is not kept for others: $isForOthers, $isCapped, $finishReason',
    async (one) => {
      const { isForOthers, isCapped, finishReason } = one;
      const recorder = new AnswerRecorder(100, isForOthers);
      recorder.setCapped(isCapped);
      recorder.begin(shared, 'whole');
      recorder.add('Words.');
      const observed: unknown[] = [];
      const inFlight: InFlightEntry = {
        finish: async (recording, charge) => {
          await charge?.saveSettlement();
          observed.push(recording === null ? null : recording.text);
        },
        release: async () => void observed.push('released'),
      };
      const recordingSession = { recorder, inFlight };
      const { saved, settle } = settling({ hold: holdOf(1_000), recordingSession, finishReason });
      await settle();
      expect(observed).toEqual([one.saved]);
      // It was sent, so the journal has to have its charge.
      expect(saved).toMatchObject([{ wasDispatched: true }]);
    },
  );

  test('that is settled a second time costs nothing more', async () => {
    const { saved, settle } = settling({ hold: holdOf(1_000) });
    await settle();
    const error = new GatewayError('service_unavailable', 'No journal.');
    expect(await settle({ kind: 'rejected', error })).toEqual({ usage: noUsage, costCredits: 0 });
    expect(saved).toHaveLength(1);
  });

  test('that could not be charged after all is not given again', async () => {
    const observed: string[] = [];
    const error = new GatewayError('service_unavailable', 'No journal.');
    const inFlight = {
      finish: () => Promise.reject(error),
      release: async () => void observed.push('released'),
    };
    const recordingSession = {
      recorder: { recording: () => undefined },
      inFlight,
    } as unknown as RecordingSession;
    const { saved, settle } = settling({ hold: holdOf(1_000), recordingSession });
    expect(await settle().catch((error: unknown) => error)).toBe(error);
    expect(observed).toEqual([]);
    await settle({ kind: 'rejected', error });
    expect([observed, saved]).toEqual([['released'], []]);
  });

  test('that costs more than the wallet has is written off for the rest', async () => {
    const bill = await billOf({ hold: holdOf(50, 90) });
    expect(bill).toMatchObject({ costCredits: 90, writtenOff: 30, keyCharge: 90 });
    expect(bill.charges).toMatchObject({ modelCharge: 90 });
    expect(bill.note).toBe('30 credits were written off because the wallet was empty.');
  });

  test('takes no more of its key’s limit than is left of it', async () => {
    const bill = await billOf({ hold: holdOf(50, 1_000, 70) });
    expect(bill).toMatchObject({ costCredits: 120, writtenOff: 0, keyCharge: 70 });
  });

  test('from the caller’s own account costs the platform’s share of it', async () => {
    const bill = await billOf({ hold: holdOf(1_000), offer: own });
    expect(bill.charges).toMatchObject({ modelCharge: 0, byokPlatformFee: 6 });
    expect(bill).toMatchObject({ costCredits: 6, trafficMode: 'byok' });
    const note =
      'The provider bills this usage to your own account; only the platform fee is charged here.';
    expect(bill.note).toBe(note);
    const noted = await billOf({ hold: holdOf(1_000), offer: own, measured: { note: 'Guessed.' } });
    expect(noted.note).toBe(`${note} Guessed.`);
    expect(bill.prices).toEqual({ ...pricing, byok_fee_basis_points: '500' });
  });

  test('that is counted in other units than tokens keeps their number', async () => {
    const units = { inputImages: 2 };
    expect((await billOf({ hold: holdOf(1_000), measured: { units } })).units).toEqual(units);
  });

  test.each([
    ['complete', true, false],
    ['client_disconnected', true, true],
    ['interrupted', true, true],
    ['interrupted', false, false],
  ] as const)(
    'that is %s, its client gone: %p, was cancelled: %p',
    async (kind, isGone, expected) => {
      const client = isGone ? { client: AbortSignal.abort() } : {};
      expect((await billOf({ hold: holdOf(1_000), kind, ...client })).cancelled).toBe(expected);
    },
  );

  test('that is free costs only what its tools did', async () => {
    const measured = { isFree: true, searches: 2, toolCredits: 30 };
    const bill = await billOf({ hold: holdOf(1_000), measured });
    expect(bill.charges).toMatchObject({ modelCharge: 0, managedToolFee: 30 });
    expect([bill.costCredits, bill.searches]).toEqual([30, 2]);
  });

  test.each([
    ['complete', undefined, 'stop', ['whole', 'speed', '110 tokens']],
    ['client_disconnected', undefined, 'stop', ['110 tokens']],
    ['interrupted', 'upstream_error', undefined, ['break', '110 tokens']],
    // Nothing is missing behind a finish reason: the model's own words are no answer.
    ['interrupted', 'upstream_error', 'tool_calls', ['110 tokens']],
    ['interrupted', 'insufficient_credits', undefined, ['110 tokens']],
    ['interrupted', 'internal_error', undefined, ['110 tokens']],
  ] as const)(
    'that is %s (%p, finish reason %p) is reported to the health of its offer',
    async (kind, symbol, finishReason, expected) => {
      const error = symbol && { error: new GatewayError(symbol, 'Broken off.') };
      const { observed, settle } = settling({ hold: holdOf(1_000), kind, finishReason, ...error });
      expect(await settle()).toMatchObject({ costCredits: 120 });
      expect(observed).toEqual([...expected]);
    },
  );
});

test.each([0, 1])('the speed of an answer of %d tokens is noted if it has any', async (count) => {
  const { observed, settle } = settling({
    hold: holdOf(1_000),
    measured: { usage: tokens(100, count) },
  });
  await settle();
  expect([observed.length, observed.at(-1)]).toEqual([count + 2, `${100 + count} tokens`]);
});

describe('an estimate', () => {
  const guess = (hold: number, more: Partial<Measured> = {}) =>
    billOf({ hold: holdOf(hold, 1_000), measured: { isEstimate: true, ...more } });

  test('costs no more than was set aside for the model', async () => {
    expect((await guess(1_000)).costCredits).toBe(120);
    expect((await guess(70)).charges).toMatchObject({ modelCharge: 70 });
    const why = 'An estimate never costs more than was set aside.';
    expect([(await guess(120)).note, (await guess(119)).note]).toEqual([null, why]);
    expect((await guess(70, { note: 'Guessed.' })).note).toBe(`Guessed. ${why}`);
    const searched = await guess(70, { toolCredits: 30 });
    expect(searched.charges).toMatchObject({ modelCharge: 40, managedToolFee: 30 });
    expect((await guess(20, { toolCredits: 30 })).charges).toMatchObject({ modelCharge: 0 });
  });

  test('costs what the provider did count, whatever was set aside', async () => {
    expect((await guess(70, { reported: tokens(100, 0) })).charges).toMatchObject({
      modelCharge: 100,
    });
    expect((await guess(110, { reported: tokens(100, 0) })).charges).toMatchObject({
      modelCharge: 110,
    });
  });

  test('takes the place of a usage that no model can have', async () => {
    // The model takes 1,000 tokens at once; sixteen times that may be several rounds of it.
    const most = await billOf({ hold: holdOf(20_000), measured: { usage: tokens(16_000, 0) } });
    expect([most.costCredits, most.usageEstimated]).toEqual([16_000, false]);
    const beyond = await billOf({ hold: holdOf(20_000), measured: { usage: tokens(16_001, 0) } });
    expect([beyond.costCredits, beyond.usageEstimated]).toEqual([201, true]);
    expect(beyond.note).toBe(
      'The provider reported more tokens than its model can use; they are an estimate.',
    );
  });
});

test('an earlier answer given again, and a refusal, cost nothing and use nothing', async () => {
  const recording = { model: 'acme/one', provider: 'acme' };
  const metrics = { usage: tokens(100, 10), finishReason: 'stop' };
  const recalled = settling({});
  expect(
    await recalled.settle({
      kind: 'replayed',
      recording,
      metrics,
      error: null,
    } as unknown as RequestOutcome),
  ).toEqual({ usage: tokens(100, 10), costCredits: 0 });
  expect(recalled.observed).toEqual([]);
  expect(recalled.saved).toMatchObject([
    {
      wasDispatched: false,
      settlement: {
        keyAccount: null,
        keyCharge: 0,
        record: {
          usage: noUsage,
          cacheHit: true,
          status: 'success',
          model: 'acme/one',
          note: 'An earlier answer was given again; nothing is charged for it.',
        },
      },
    },
  ]);
  const first = { requestId: 'r-1', receivedAt: 7, usage: tokens(9, 1), costCredits: 12 };
  const named = settling({});
  const ending = {
    kind: 'replayed',
    recording,
    first,
    metrics,
    error: null,
  } as unknown as RequestOutcome;
  // What the first request's client was told is told once more.
  expect(await named.settle(ending)).toMatchObject({ usage: tokens(9, 1), costCredits: 12 });
  expect(named.saved).toMatchObject([
    {
      wasDispatched: false,
      settlement: {
        keyCharge: 0,
        record: {
          usage: noUsage,
          note: 'The answer of request r-1 was given again; nothing is charged for it.',
        },
      },
    },
  ]);
  const refused = settling({});
  const error = new GatewayError('insufficient_credits', 'Too little.');
  expect(await refused.settle({ kind: 'rejected', error })).toMatchObject({ costCredits: 0 });
  expect(refused.saved).toMatchObject([
    {
      wasDispatched: false,
      settlement: {
        record: {
          status: 'error',
          error: 'insufficient_credits',
          refusal: 'Too little.',
          usageEstimated: false,
          searches: 0,
          model: null,
          note: null,
        },
      },
    },
  ]);
});

test('a request that is refused unread is logged by its path and the model it names', async () => {
  const { saved, settle } = settling({ isUnread: true });
  await settle({ kind: 'rejected', error: new GatewayError('invalid_request_error', 'No JSON.') });
  expect(saved).toMatchObject([
    {
      settlement: {
        record: {
          operation: 'speech',
          requestedModel: 'acme/named',
          streamed: false,
          endUser: null,
          skills: [],
        },
      },
    },
  ]);
});

test('a client that leaves before its answer begins is logged as no failure', async () => {
  const attempts = [
    { outcome: 'failed' },
    { outcome: 'client_disconnected' },
  ] as unknown as Call['attempts'];
  const error = new GatewayError('upstream_error', 'Nobody waits for it.');
  const { saved, settle } = settling({ attempts });
  expect(await settle({ kind: 'rejected', error })).toMatchObject({ costCredits: 0 });
  const note = 'The client left before the answer began; nothing is charged.';
  // The reason stands with the attempts.
  const record = { status: 'error', error: null, note, refusal: undefined };
  expect(saved).toMatchObject([{ settlement: { record } }]);
});
