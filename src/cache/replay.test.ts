import { beforeEach, describe, expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import { chatAsk } from '../../tests/support/question.ts';
import type { Call, Operation } from '../call.ts';
import type { CacheMode, Caller } from '../core/caller.ts';
import type { IdempotencyClaim, Recording } from '../core/recording.ts';
import type { RequestInfo } from '../core/request-info.ts';
import { noUsage } from '../core/usage.ts';
import type { Offer } from '../route/catalog.ts';
import { MemoryCacheStore } from './cache-store.ts';
import type { Idempotency } from './idempotency.ts';
import { findReplay } from './replay.ts';
import { ResponseCache } from './response-cache.ts';

const recording = { text: 'It rained.', model: 'a/one', provider: 'p' } as Recording;

interface RequestCase {
  readonly caller?: Partial<Caller>;
  readonly request?: Partial<RequestInfo>;
  readonly cacheKeyInput?: unknown;
  readonly isRepeatable?: boolean;
  readonly cacheControl?: string;
  readonly idempotencyKey?: string;
  readonly operation?: Partial<Operation>;
}

let cache: ResponseCache;
let claims: IdempotencyClaim[] = [];
let named: Recording | undefined;
let offered = new Set<string>();

beforeEach(() => {
  cache = new ResponseCache(new MemoryCacheStore(1_000_000), 300, () => 0);
  claims = [];
  named = undefined;
  offered = new Set(['a/one at p']);
});

/** Knows the answer that it is told to, and notes who asked for it. */
const idempotency = {
  lookUp: async (
    claim: IdempotencyClaim,
    _client: AbortSignal,
    use: (one: Recording) => unknown,
  ) => {
    claims.push(claim);
    if (!named) return { inFlight: {} };
    const found = use(named);
    if (found === undefined) throw new Error('It cannot be given in this form.');
    return { found };
  },
} as Partial<Idempotency> as Idempotency;

/** Asks a question; tells whether it was answered before, or is recorded now. */
async function send(requestCase: RequestCase = {}, cacheMode: CacheMode = 'auto') {
  const {
    cacheControl = null,
    idempotencyKey = null,
    cacheKeyInput = 'Did it rain?',
  } = requestCase;
  const call = {
    requestId: 'r',
    caller: callerOf('ten_1', requestCase.caller),
    client: new AbortController().signal,
    receivedAt: 0,
    headers: {},
    replayOptions: { cacheControl, idempotencyKey },
    recordingSession: undefined,
  } as Partial<Call> as Call;
  const operation = {
    request: { ...chatAsk({ models: ['a/one'] }), ...requestCase.request },
    cacheIdentity: () => ({
      cacheKeyInput: () => cacheKeyInput,
      isRepeatable: requestCase.isRepeatable ?? true,
    }),
    replay: ({ text }: Recording) => text,
    ...requestCase.operation,
  } as unknown as Operation;
  const isOffered = (model: string, provider: string) => offered.has(`${model} at ${provider}`);
  const deps = { cache, idempotency, cacheMode, isOffered };
  const replay = await findReplay(call, operation, deps);
  return { call, replay, isRecorded: call.recordingSession !== undefined };
}

/** The same question was asked and answered before. */
async function answerFirst(): Promise<void> {
  const { call } = await send();
  await call.recordingSession?.inFlight.finish(recording);
}

describe('the answer to a question', () => {
  test('is given again to the same one, with the model that gave it', async () => {
    await answerFirst();
    const { call, replay, isRecorded } = await send();
    expect(replay).toMatchObject({ recording: { text: 'It rained.' }, relay: 'It rained.' });
    expect(call.headers).toEqual({ 'x-cache': 'HIT', 'x-cache-model': 'a/one' });
    expect(isRecorded).toBe(false);
  });

  test.each(['a/two at p', 'a/one at q'])(
    'is not given again once only %s is offered',
    async (left) => {
      await answerFirst();
      offered = new Set([left]);
      expect(await send()).toMatchObject({ replay: undefined, isRecorded: true });
    },
  );

  test.each<[string, RequestCase]>([
    ['another tenant', { caller: { tenantId: 'ten_2' } }],
    ['a key that may use less', { caller: { models: ['a/*'] } }],
    ['one who asks other models', { request: { models: ['a/one', 'a/two'] } }],
    ['one who prefers others', { request: { preferences: { only: ['p'] } as never } }],
    ['another kind of request', { request: { operationName: 'embeddings' } }],
    ['another question', { cacheKeyInput: 'Did it snow?' }],
    ['one who wants it fresh', { cacheControl: 'no-cache' }],
  ])('is not given to %s, whose own is recorded', async (_who, requestCase) => {
    await answerFirst();
    const { call, replay, isRecorded } = await send(requestCase);
    expect([replay, isRecorded, call.headers]).toEqual([undefined, true, {}]);
  });

  test.each<[string, RequestCase, CacheMode]>([
    ['where nothing is kept', {}, 'off'],
    ['by a key for which nothing is', { caller: { cacheMode: 'off' } }, 'always'],
    ['where it may differ each time', { isRepeatable: false }, 'auto'],
    ['of sounds, which go out as they come', { request: { operationName: 'speech' } }, 'always'],
    ['whose client wants nothing kept', { cacheControl: 'no-store' }, 'always'],
    [
      'that nobody can tell from others',
      { operation: { cacheIdentity: undefined as never } },
      'always',
    ],
    ['that cannot be told twice', { operation: { replay: undefined as never } }, 'always'],
  ])('is neither looked for nor recorded %s', async (_when, requestCase, mode) => {
    await answerFirst();
    const { replay, isRecorded } = await send(requestCase, mode);
    expect([replay, isRecorded]).toEqual([undefined, false]);
  });

  test('is recorded even if it may differ where the key or the operator wants that', async () => {
    const [one, other] = [
      { isRepeatable: false },
      { isRepeatable: false, cacheKeyInput: 'Any news?' },
    ];
    expect((await send(one, 'always')).isRecorded).toBe(true);
    const always = { ...other, caller: { cacheMode: 'always' } } as const;
    expect((await send(always, 'off')).isRecorded).toBe(true);
  });
});

test('an answer that credits cut short is kept for its own key, and nobody else', async () => {
  const at = { dialect: 'openai', model: { id: 'a/one' }, provider: { name: 'p' } };
  const recordingOf = async (requestCase: RequestCase) => {
    const recorder = (await send(requestCase)).call.recordingSession?.recorder;
    recorder?.setCapped(true);
    recorder?.begin(at as Partial<Offer> as Offer, 'whole');
    recorder?.add('It');
    return recorder?.recording('length')?.text;
  };
  expect([await recordingOf({}), await recordingOf({ idempotencyKey: 'k' })]).toEqual([
    undefined,
    'It',
  ]);
});

describe('an Idempotency-Key', () => {
  const requestCase: RequestCase = {
    idempotencyKey: 'k',
    isRepeatable: false,
    caller: { cacheMode: 'off' },
  };

  test('claims the answer for its tenant and its question, whatever the cache does', async () => {
    expect((await send(requestCase)).isRecorded).toBe(true);
    await send({ ...requestCase, cacheKeyInput: 'Did it snow?' });
    expect(claims).toMatchObject([
      { tenantId: 'ten_1', key: 'k', requestId: 'r' },
      { tenantId: 'ten_1', key: 'k', requestId: 'r' },
    ]);
    expect(new Set(claims.map(({ fingerprint }) => fingerprint)).size).toBe(2);
  });

  test('brings the earlier answer, and says so', async () => {
    named = recording;
    const { call, replay, isRecorded } = await send(requestCase);
    expect(replay).toMatchObject({ relay: 'It rained.' });
    expect(call.headers).toMatchObject({ 'idempotent-replayed': 'true', 'x-cache': 'HIT' });
    expect(isRecorded).toBe(false);
  });

  test('brings nothing that cannot be given in the form that is asked for', async () => {
    const first = { requestId: 'r-1', receivedAt: 7, usage: noUsage, costCredits: 12, endedAt: 8 };
    named = { ...recording, first };
    expect((await send(requestCase)).call.headers).toMatchObject({ 'x-request-id': 'r-1' });
    const elsewhere = send({ ...requestCase, operation: { replay: () => undefined } });
    await expect(elsewhere).rejects.toThrow('It cannot be given in this form.');
  });

  test('tells nothing to a key that may use none of the models', async () => {
    named = recording;
    const both = { ...requestCase, request: { models: ['a/one', 'b/two'] } };
    expect((await send({ ...both, caller: { models: ['c/*'] } })).replay).toBeUndefined();
    expect(claims).toEqual([]);
    expect((await send({ ...both, caller: { models: ['b/*'] } })).replay).toBeDefined();
  });
});
