import { beforeEach, describe, expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import { chatRequestInfo } from '../../tests/support/prompts.ts';
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
let firstAnswer: Recording | undefined;
let offered = new Set<string>();

beforeEach(() => {
  cache = new ResponseCache(new MemoryCacheStore(1_000_000), 300, () => 0);
  claims = [];
  firstAnswer = undefined;
  offered = new Set(['a/one at p']);
});

/** Returns `firstAnswer` as the first answer and records the claims. */
const idempotency = {
  lookUp: async (
    claim: IdempotencyClaim,
    _client: AbortSignal,
    toReplay: (recording: Recording) => unknown,
  ) => {
    claims.push(claim);
    if (!firstAnswer) return { inFlight: {} };
    const found = toReplay(firstAnswer);
    if (found === undefined) throw new Error('The format does not match.');
    return { found };
  },
} as Partial<Idempotency> as Idempotency;

/** Looks up a request, and returns its replay and whether it is recorded. */
async function send(requestCase: RequestCase = {}, cacheMode: CacheMode = 'auto') {
  const {
    cacheControl = null,
    idempotencyKey = null,
    cacheKeyInput = 'Did it rain?',
  } = requestCase;
  const call = {
    requestId: 'r',
    caller: callerOf('ten_1', requestCase.caller),
    clientSignal: new AbortController().signal,
    receivedAt: 0,
    headers: {},
    replayOptions: { cacheControl, idempotencyKey },
    recordingSession: undefined,
  } as Partial<Call> as Call;
  const operation = {
    request: { ...chatRequestInfo({ models: ['a/one'] }), ...requestCase.request },
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

/** Sends the default request and records its answer. */
async function answerFirst(): Promise<void> {
  const { call } = await send();
  await call.recordingSession?.inFlight.finish(recording);
}

describe('findReplay', () => {
  test('returns the answer to an identical request and the model in a header', async () => {
    await answerFirst();
    const { call, replay, isRecorded } = await send();
    expect(replay).toMatchObject({ recording: { text: 'It rained.' }, reply: 'It rained.' });
    expect(call.headers).toEqual({ 'x-cache': 'HIT', 'x-cache-model': 'a/one' });
    expect(isRecorded).toBe(false);
  });

  test.each(['a/two at p', 'a/one at q'])(
    'ignores an answer if only %s is offered now',
    async (remaining) => {
      await answerFirst();
      offered = new Set([remaining]);
      expect(await send()).toMatchObject({ replay: undefined, isRecorded: true });
    },
  );

  test.each<[string, RequestCase]>([
    ['from another tenant', { caller: { tenantId: 'ten_2' } }],
    ['from a key with an allow-list', { caller: { models: ['a/*'] } }],
    ['for other models', { request: { models: ['a/one', 'a/two'] } }],
    ['with other provider preferences', { request: { preferences: { only: ['p'] } as never } }],
    ['of another operation', { request: { operationName: 'embeddings' } }],
    ['with another prompt', { cacheKeyInput: 'Did it snow?' }],
    ['with no-cache', { cacheControl: 'no-cache' }],
  ])('records the answer to a request %s', async (_case, requestCase) => {
    await answerFirst();
    const { call, replay, isRecorded } = await send(requestCase);
    expect([replay, isRecorded, call.headers]).toEqual([undefined, true, {}]);
  });

  test.each<[string, RequestCase, CacheMode]>([
    ['with caching off', {}, 'off'],
    ['from a key with caching off', { caller: { cacheMode: 'off' } }, 'always'],
    ['with random output in mode auto', { isRepeatable: false }, 'auto'],
    ['for speech', { request: { operationName: 'speech' } }, 'always'],
    ['with no-store', { cacheControl: 'no-store' }, 'always'],
    ['without a cache identity', { operation: { cacheIdentity: undefined as never } }, 'always'],
    ['without a way to replay', { operation: { replay: undefined as never } }, 'always'],
  ])('neither replays nor records a request %s', async (_case, requestCase, mode) => {
    await answerFirst();
    const { replay, isRecorded } = await send(requestCase, mode);
    expect([replay, isRecorded]).toEqual([undefined, false]);
  });

  test('records random output if the key or the operator sets mode always', async () => {
    const [one, other] = [
      { isRepeatable: false },
      { isRepeatable: false, cacheKeyInput: 'Any news?' },
    ];
    expect((await send(one, 'always')).isRecorded).toBe(true);
    const always = { ...other, caller: { cacheMode: 'always' } } as const;
    expect((await send(always, 'off')).isRecorded).toBe(true);
  });
});

test('records an answer capped by credits only for its Idempotency-Key', async () => {
  const at = { dialect: 'openai', model: { id: 'a/one' }, provider: { name: 'p' } };
  const recordingOf = async (requestCase: RequestCase) => {
    const recorder = (await send(requestCase)).call.recordingSession?.recorder;
    recorder?.setCapped(true);
    recorder?.begin(at as Partial<Offer> as Offer, 'reply');
    recorder?.add('It');
    return recorder?.recording('length')?.text;
  };
  expect([await recordingOf({}), await recordingOf({ idempotencyKey: 'k' })]).toEqual([
    undefined,
    'It',
  ]);
});

describe('findReplay with an Idempotency-Key', () => {
  const requestCase: RequestCase = {
    idempotencyKey: 'k',
    isRepeatable: false,
    caller: { cacheMode: 'off' },
  };

  test('claims the key for the tenant and the request, even with caching off', async () => {
    expect((await send(requestCase)).isRecorded).toBe(true);
    await send({ ...requestCase, cacheKeyInput: 'Did it snow?' });
    expect(claims).toMatchObject([
      { tenantId: 'ten_1', key: 'k', requestId: 'r' },
      { tenantId: 'ten_1', key: 'k', requestId: 'r' },
    ]);
    expect(new Set(claims.map(({ fingerprint }) => fingerprint)).size).toBe(2);
  });

  test('returns the first answer with the header idempotent-replayed', async () => {
    firstAnswer = recording;
    const { call, replay, isRecorded } = await send(requestCase);
    expect(replay).toMatchObject({ reply: 'It rained.' });
    expect(call.headers).toMatchObject({ 'idempotent-replayed': 'true', 'x-cache': 'HIT' });
    expect(isRecorded).toBe(false);
  });

  test('returns the ID of the first request, and fails for another format', async () => {
    const first = { requestId: 'r-1', receivedAt: 7, usage: noUsage, costCredits: 12, endedAt: 8 };
    firstAnswer = { ...recording, first };
    expect((await send(requestCase)).call.headers).toMatchObject({ 'x-request-id': 'r-1' });
    const other = send({ ...requestCase, operation: { replay: () => undefined } });
    await expect(other).rejects.toThrow('The format does not match.');
  });

  test('returns nothing to a key that can use none of the models', async () => {
    firstAnswer = recording;
    const both = { ...requestCase, request: { models: ['a/one', 'b/two'] } };
    expect((await send({ ...both, caller: { models: ['c/*'] } })).replay).toBeUndefined();
    expect(claims).toEqual([]);
    expect((await send({ ...both, caller: { models: ['b/*'] } })).replay).toBeDefined();
  });
});
