import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../../tests/support/caller.ts';
import type { Call, Operation, RecordingSession, RequestOutcome } from '../../call.ts';
import { GatewayError } from '../../core/errors.ts';
import type { IdempotentAnswer, InFlightEntry } from '../../core/recording.ts';
import { type Measured, noUnits, noUsage, type Usage } from '../../core/usage.ts';
import type { Offer } from '../../route/catalog.ts';
import type { OpenedAnswer } from '../../upstream/fallback.ts';
import { AnswerRecorder } from '../../upstream/recorder.ts';
import type { Hold } from '../hold/hold.ts';
import type { Settlement } from '../ledger.ts';
import { readPrices } from '../price/price-list.ts';
import { settle } from './settle.ts';

/** 1 credit per input token, 2 per output token. */
const pricing = { prompt: '1', completion: '2' };
const shared = {
  model: { id: 'acme/one' },
  provider: { name: 'acme' },
  prices: readPrices(pricing),
  pricing,
  ownAccount: null,
} as Partial<Offer> as Offer;
const own = { ...shared, ownAccount: { feeBasisPoints: 500 } } as Offer;

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

/** A hold whose wallet can pay `most` credits and whose key's limit allows `ofKey`. */
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
  /** Rejected before its body was read. */
  readonly isUnread?: true;
  readonly clientSignal?: AbortSignal;
  /** `billing.abandoned`. */
  readonly abandoned?: 'input' | 'free';
  /** The input of an abandoned request. */
  readonly input?: Usage;
}

/** A chat operation that measures the reported usage, or an estimate. */
function operationMeasuring(measured: SettleCase['measured'], input?: Usage): Operation {
  return {
    request: {
      operationName: 'chat',
      models: ['acme/requested', 'acme/one'],
      stream: true,
      user: 'u',
    },
    skills: ['terse'],
    bounds: { tokensMaxFor: () => 16_000 },
    measure: ({ usage }: { usage: Usage | undefined }): Measured => ({
      usage: usage ?? tokens(1, 100),
      units: noUnits,
      isEstimate: usage === undefined,
      note: null,
      ...(usage && measured),
    }),
    ...(input && {
      measureInput: () => ({ usage: input, units: noUnits, isEstimate: true, note: 'replaced' }),
    }),
  } as unknown as Operation;
}

/** An answered call, and everything that settling it saves and reports. */
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
  const { clientSignal = new AbortController().signal } = settleCase;
  const saved: { settlement: Settlement; wasDispatched: boolean; answer?: IdempotentAnswer }[] = [];
  const observed: string[] = [];
  const metrics = { finishReason, outputCharacters: 400, failure: undefined };
  const operation = operationMeasuring(measured, settleCase.input);
  const call = {
    requestId: 'r',
    caller: callerOf('ten_1'),
    clientSignal,
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
  const opened = { offer, firstByteMs: 3 } as Partial<OpenedAnswer> as OpenedAnswer;
  const answered = {
    kind,
    opened,
    metrics: { usage, ...metrics },
    error: error ?? null,
  } as RequestOutcome;
  const deps = {
    creditsPerUsd: 1_000_000,
    chargesAbandonedInput: settleCase.abandoned !== 'free',
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
    // 10 tokens in a little more than 1,000 seconds.
    observeSpeed: (_offer: Offer, perSecond: number) =>
      observed.push(perSecond > 0.005 && perSecond <= 0.01 ? 'speed' : `${perSecond} per second`),
    observeEnd: (_offer: Offer, isComplete: boolean) =>
      observed.push(isComplete ? 'complete' : 'interrupted'),
  };
  return { saved, observed, settle: (outcome = answered) => settle(call, outcome, deps) };
}

/** Returns the saved record with its charges. */
async function billOf(settleCase: SettleCase) {
  const { saved, settle } = settling(settleCase);
  const { costCredits } = await settle();
  const [only, ...others] = saved;
  if (!only || others.length > 0) throw new Error('Expected one saved settlement.');
  const { record, writtenOff, keyAccount, keyCharge } = only.settlement;
  return { ...record, costCredits, writtenOff, keyAccount, keyCharge };
}

describe('settle', () => {
  test('charges tokens and returns the recorded numbers', async () => {
    const { saved, observed, settle } = settling({ hold: holdOf(1_000) });
    expect(await settle()).toMatchObject({ usage: tokens(100, 10), costCredits: 120 });
    expect(observed).toEqual(['complete', 'speed', '110 tokens']);
    expect(saved).toMatchObject([{ wasDispatched: true, settlement: { writtenOff: 0 } }]);
    expect(saved[0]?.settlement).toMatchObject({ keyAccount: 'key:k', keyCharge: 120 });
    expect(saved[0]?.settlement.record).toMatchObject({
      charges: charged(120),
      model: 'acme/one',
      provider: 'acme',
      requestedModel: 'acme/requested',
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

  test('saves a recorded answer together with its charge', async () => {
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

  test('charges nothing if an earlier answer to the key was charged but lost', async () => {
    const finish: InFlightEntry['finish'] = async (_recording, charge) => {
      await charge?.saveWithAnswer(answer);
    };
    const recordingSession = {
      recorder: { recording: () => ({ text: 'Words.' }) },
      inFlight: { isPaid: true, finish, release: async () => undefined },
    } as unknown as RecordingSession;
    const measured = { isEstimate: true };
    const { saved, settle } = settling({ hold: holdOf(0), recordingSession, measured });
    expect(await settle()).toMatchObject({ costCredits: 0 });
    expect(saved[0]?.settlement.record).toMatchObject({
      charges: charged(0),
      note: 'An earlier answer to this Idempotency-Key was charged but lost, so this one is free.',
    });
  });

  test('releases the in-flight entry of an abandoned answer before charging it', async () => {
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
    { isShared: true, isCapped: true, finishReason: 'length', saved: null },
    { isShared: true, isCapped: true, finishReason: 'stop', saved: 'Words.' },
    { isShared: true, isCapped: false, finishReason: 'length', saved: 'Words.' },
    { isShared: false, isCapped: true, finishReason: 'length', saved: 'Words.' },
  ])(
    'saves $saved as the recording (shared: $isShared, capped: $isCapped, finish: $finishReason)',
    async (one) => {
      const { isShared, isCapped, finishReason } = one;
      const recorder = new AnswerRecorder(100, isShared);
      recorder.setCapped(isCapped);
      recorder.begin(shared, 'reply');
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
      // The request was dispatched, so its charge must be journaled.
      expect(saved).toMatchObject([{ wasDispatched: true }]);
    },
  );

  test('charges a request only once', async () => {
    const { saved, settle } = settling({ hold: holdOf(1_000) });
    await settle();
    const error = new GatewayError('service_unavailable', 'No journal.');
    expect(await settle({ kind: 'rejected', error })).toEqual({ usage: noUsage, costCredits: 0 });
    expect(saved).toHaveLength(1);
  });

  test('releases the in-flight entry of an answer that could not be charged', async () => {
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

  test('writes off what the wallet cannot pay', async () => {
    const bill = await billOf({ hold: holdOf(50, 90) });
    expect(bill).toMatchObject({ costCredits: 90, writtenOff: 30, keyCharge: 90 });
    expect(bill.charges).toMatchObject({ modelCharge: 90 });
    expect(bill.note).toBe("30 credits were written off because the wallet couldn't cover them.");
  });

  test("counts no more toward the key's limit than it has left", async () => {
    const bill = await billOf({ hold: holdOf(50, 1_000, 70) });
    expect(bill).toMatchObject({ costCredits: 120, writtenOff: 0, keyCharge: 70 });
  });

  test("charges the platform fee for the caller's own provider key", async () => {
    const bill = await billOf({ hold: holdOf(1_000), offer: own });
    expect(bill.charges).toMatchObject({ modelCharge: 0, byokPlatformFee: 6 });
    expect(bill).toMatchObject({ costCredits: 6, trafficMode: 'byok' });
    const note =
      'The provider bills your own account for this usage. Only the platform fee is charged.';
    expect(bill.note).toBe(note);
    const noted = await billOf({ hold: holdOf(1_000), offer: own, measured: { note: 'Guessed.' } });
    expect(noted.note).toBe(`${note} Guessed.`);
    expect(bill.prices).toEqual({ ...pricing, byok_fee_basis_points: '500' });
  });

  test('records units other than tokens', async () => {
    const units = { inputImages: 2 };
    expect((await billOf({ hold: holdOf(1_000), measured: { units } })).units).toEqual(units);
  });

  test.each([
    ['complete', true, false],
    ['client_disconnected', true, true],
    ['interrupted', true, true],
    ['interrupted', false, false],
  ] as const)(
    'records outcome %s with the client disconnected (%p) as canceled (%p)',
    async (kind, isGone, expected) => {
      const client = isGone ? { clientSignal: AbortSignal.abort() } : {};
      expect((await billOf({ hold: holdOf(1_000), kind, ...client })).cancelled).toBe(expected);
    },
  );

  test('charges only tools for a free answer', async () => {
    const measured = { isFree: true, searches: 2, toolCredits: 30 };
    const bill = await billOf({ hold: holdOf(1_000), measured });
    expect(bill.charges).toMatchObject({ modelCharge: 0, managedToolFee: 30 });
    expect([bill.costCredits, bill.searches]).toEqual([30, 2]);
  });

  test.each([
    ['complete', undefined, 'stop', ['complete', 'speed', '110 tokens']],
    ['client_disconnected', undefined, 'stop', ['110 tokens']],
    ['interrupted', 'upstream_error', undefined, ['interrupted', '110 tokens']],
    // After a finish reason, the provider is fine, but the model's output was unusable.
    ['interrupted', 'upstream_error', 'tool_calls', ['110 tokens']],
    ['interrupted', 'insufficient_credits', undefined, ['110 tokens']],
    ['interrupted', 'internal_error', undefined, ['110 tokens']],
  ] as const)(
    'reports outcome %s (%p, finish reason %p) to the health of its offer',
    async (kind, symbol, finishReason, expected) => {
      const error = symbol && { error: new GatewayError(symbol, 'Broken off.') };
      const { observed, settle } = settling({ hold: holdOf(1_000), kind, finishReason, ...error });
      expect(await settle()).toMatchObject({ costCredits: 120 });
      expect(observed).toEqual([...expected]);
    },
  );
});

test.each([0, 1])(
  'settle with %d output tokens reports a speed only if there are any',
  async (count) => {
    const { observed, settle } = settling({
      hold: holdOf(1_000),
      measured: { usage: tokens(100, count) },
    });
    await settle();
    expect([observed.length, observed.at(-1)]).toEqual([count + 2, `${100 + count} tokens`]);
  },
);

describe('settle with an estimate', () => {
  const billEstimate = (hold: number, others: Partial<Measured> = {}) =>
    billOf({ hold: holdOf(hold, 1_000), measured: { isEstimate: true, ...others } });

  test('charges no more than the credits held for the model', async () => {
    expect((await billEstimate(1_000)).costCredits).toBe(120);
    expect((await billEstimate(70)).charges).toMatchObject({ modelCharge: 70 });
    const reason = 'An estimate never costs more than the credits held for the request.';
    expect([(await billEstimate(120)).note, (await billEstimate(119)).note]).toEqual([
      null,
      reason,
    ]);
    expect((await billEstimate(70, { note: 'Guessed.' })).note).toBe(`Guessed. ${reason}`);
    const searched = await billEstimate(70, { toolCredits: 30 });
    expect(searched.charges).toMatchObject({ modelCharge: 40, managedToolFee: 30 });
    expect((await billEstimate(20, { toolCredits: 30 })).charges).toMatchObject({ modelCharge: 0 });
  });

  test('charges what the provider counted, even if it exceeds the hold', async () => {
    expect((await billEstimate(70, { reported: tokens(100, 0) })).charges).toMatchObject({
      modelCharge: 100,
    });
    expect((await billEstimate(110, { reported: tokens(100, 0) })).charges).toMatchObject({
      modelCharge: 110,
    });
  });

  test('replaces impossible usage with an estimate', async () => {
    const most = await billOf({ hold: holdOf(20_000), measured: { usage: tokens(16_000, 0) } });
    expect([most.costCredits, most.usageEstimated]).toEqual([16_000, false]);
    const beyond = await billOf({ hold: holdOf(20_000), measured: { usage: tokens(16_001, 0) } });
    expect([beyond.costCredits, beyond.usageEstimated]).toEqual([201, true]);
    expect(beyond.note).toBe(
      'The provider reported more tokens than the request can use. The tokens are an estimate.',
    );
  });
});

test('settle charges nothing for replayed answers', async () => {
  const recording = { model: 'acme/one', provider: 'acme' };
  const metrics = { usage: tokens(100, 10), finishReason: 'stop' };
  const replayed = settling({});
  expect(
    await replayed.settle({
      kind: 'replayed',
      recording,
      metrics,
      error: null,
    } as unknown as RequestOutcome),
  ).toEqual({ usage: tokens(100, 10), costCredits: 0 });
  expect(replayed.observed).toEqual([]);
  expect(replayed.saved).toMatchObject([
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
          note: 'Served an earlier answer again. Nothing is charged.',
        },
      },
    },
  ]);
  const first = { requestId: 'r-1', receivedAt: 7, usage: tokens(9, 1), costCredits: 12 };
  const withFirst = settling({});
  const outcome = {
    kind: 'replayed',
    recording,
    first,
    metrics,
    error: null,
  } as unknown as RequestOutcome;
  // The client gets the numbers of the first request.
  expect(await withFirst.settle(outcome)).toMatchObject({ usage: tokens(9, 1), costCredits: 12 });
  expect(withFirst.saved).toMatchObject([
    {
      wasDispatched: false,
      settlement: {
        keyCharge: 0,
        record: {
          usage: noUsage,
          note: 'Served the answer of request r-1 again. Nothing is charged.',
        },
      },
    },
  ]);
});

test('settle charges nothing for rejected requests', async () => {
  const rejected = settling({});
  const error = new GatewayError('insufficient_credits', 'Too little.');
  expect(await rejected.settle({ kind: 'rejected', error })).toMatchObject({ costCredits: 0 });
  expect(rejected.saved).toMatchObject([
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

test('settle records an unread request with its operation and model', async () => {
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

describe('settle of a request that its client abandoned', () => {
  const input = tokens(60, 0);
  const note =
    'The client disconnected before the answer started. The provider was already processing the ' +
    'request, so its input is charged, as an estimate.';
  const error = new GatewayError('upstream_error', 'The client disconnected.');

  async function abandonedBill(settleCase: SettleCase) {
    const { saved, observed, settle } = settling({ hold: holdOf(134), ...settleCase });
    const { offer = shared } = settleCase;
    const { costCredits } = await settle({ kind: 'abandoned', offer, error });
    return { ...saved[0]?.settlement.record, costCredits, observed };
  }

  test('charges the estimated input at the prices of the abandoned attempt', async () => {
    expect(await abandonedBill({ input })).toMatchObject({
      ...{ costCredits: 60, charges: charged(60), prices: pricing, usage: input, note },
      ...{ model: 'acme/one', provider: 'acme', trafficMode: 'shared', firstByteMs: null },
      ...{ status: 'error', error: null, usageEstimated: true, observed: ['60 tokens'] },
    });
  });

  test('charges the fee for a provider key of the tenant', async () => {
    expect(await abandonedBill({ input, offer: own })).toMatchObject({
      charges: { ...charged(0), byokPlatformFee: 3 },
      trafficMode: 'byok',
    });
  });

  test('never charges more than the hold', async () => {
    expect(await abandonedBill({ input, hold: holdOf(50) })).toMatchObject({ costCredits: 50 });
  });

  const free = {
    ...{ costCredits: 0, charges: charged(0), prices: null, model: null },
    note: 'The client disconnected before the answer started. Nothing is charged.',
  };

  test.each([
    ['billing.abandoned is free', { input, abandoned: 'free' as const }],
    ['the operation is not priced by its input', {}],
    ['the input has no price', { input: noUsage }],
  ])('charges nothing if %s', async (_, settleCase) => {
    expect(await abandonedBill(settleCase)).toMatchObject(free);
  });
});

test('settle records no failure for a client that disconnects before the answer', async () => {
  const attempts = [
    { outcome: 'server' },
    { outcome: 'client_disconnected' },
  ] as unknown as Call['attempts'];
  const error = new GatewayError('upstream_error', 'The client disconnected.');
  const { saved, settle } = settling({ attempts });
  expect(await settle({ kind: 'rejected', error })).toMatchObject({ costCredits: 0 });
  const note = 'The client disconnected before the answer started. Nothing is charged.';
  // The reason is recorded with the attempts.
  const record = { status: 'error', error: null, note, refusal: undefined };
  expect(saved).toMatchObject([{ settlement: { record } }]);
});
