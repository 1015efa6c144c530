import { beforeEach, describe, expect, test } from 'bun:test';
import { callerOf } from '../tests/support/caller.ts';
import { chatAsk } from '../tests/support/question.ts';
import type { Idempotency } from './cache/idempotency.ts';
import { MemoryShelf } from './cache/memory-shelf.ts';
import { ResponseCache } from './cache/response-cache.ts';
import type { Call, Errand } from './call.ts';
import type { Ask } from './core/ask.ts';
import type { CacheMode, Caller } from './core/caller.ts';
import type { Claim } from './core/claim.ts';
import type { Recording } from './core/recording.ts';
import { noUsage } from './core/usage.ts';
import { recall } from './recall.ts';
import type { Offer } from './route/catalogue.ts';

const recording = { text: 'It rained.', model: 'a/one', provider: 'p' } as Recording;

interface Asked {
  readonly caller?: Partial<Caller>;
  readonly ask?: Partial<Ask>;
  readonly wording?: unknown;
  readonly isRepeatable?: boolean;
  readonly cacheControl?: string;
  readonly idempotencyKey?: string;
  readonly errand?: Partial<Errand>;
}

let cache: ResponseCache;
let claims: Claim[] = [];
let named: Recording | undefined;
let offered = new Set<string>();

beforeEach(() => {
  cache = new ResponseCache(new MemoryShelf(1_000_000), 300, () => 0);
  claims = [];
  named = undefined;
  offered = new Set(['a/one at p']);
});

/** Knows the answer that it is told to, and notes who asked for it. */
const idempotency = {
  recall: async (claim: Claim, _client: AbortSignal, use: (one: Recording) => unknown) => {
    claims.push(claim);
    if (!named) return { duty: {} };
    const found = use(named);
    if (found === undefined) throw new Error('It cannot be given in this form.');
    return { found };
  },
} as Partial<Idempotency> as Idempotency;

/** Asks a question; tells whether it was answered before, or is recorded now. */
async function put(asked: Asked = {}, cacheMode: CacheMode = 'auto') {
  const { cacheControl = null, idempotencyKey = null, wording = 'Did it rain?' } = asked;
  const call = {
    requestId: 'r',
    caller: callerOf('ten_1', asked.caller),
    client: new AbortController().signal,
    receivedAt: 0,
    headers: {},
    wishes: { cacheControl, idempotencyKey },
    memory: undefined,
  } as Partial<Call> as Call;
  const errand = {
    ask: { ...chatAsk({ models: ['a/one'] }), ...asked.ask },
    sameness: () => ({ wording: () => wording, isRepeatable: asked.isRepeatable ?? true }),
    replay: ({ text }: Recording) => text,
    ...asked.errand,
  } as unknown as Errand;
  const isOffered = (model: string, provider: string) => offered.has(`${model} at ${provider}`);
  const parts = { cache, idempotency, cacheMode, isOffered };
  const recalled = await recall(call, errand, parts);
  return { call, recalled, isRecorded: call.memory !== undefined };
}

/** The same question was asked and answered before. */
async function answerFirst(): Promise<void> {
  const { call } = await put();
  await call.memory?.duty.finish(recording);
}

describe('the answer to a question', () => {
  test('is given again to the same one, with the model that gave it', async () => {
    await answerFirst();
    const { call, recalled, isRecorded } = await put();
    expect(recalled).toMatchObject({ recording: { text: 'It rained.' }, relay: 'It rained.' });
    expect(call.headers).toEqual({ 'x-cache': 'HIT', 'x-cache-model': 'a/one' });
    expect(isRecorded).toBe(false);
  });

  test.each(['a/two at p', 'a/one at q'])(
    'is not given again once only %s is offered',
    async (left) => {
      await answerFirst();
      offered = new Set([left]);
      expect(await put()).toMatchObject({ recalled: undefined, isRecorded: true });
    },
  );

  test.each<[string, Asked]>([
    ['another tenant', { caller: { tenantId: 'ten_2' } }],
    ['a key that may use less', { caller: { models: ['a/*'] } }],
    ['one who asks other models', { ask: { models: ['a/one', 'a/two'] } }],
    ['one who prefers others', { ask: { preferences: { only: ['p'] } as never } }],
    ['another kind of request', { ask: { operation: 'embeddings' } }],
    ['another question', { wording: 'Did it snow?' }],
    ['one who wants it fresh', { cacheControl: 'no-cache' }],
  ])('is not given to %s, whose own is recorded', async (_who, asked) => {
    await answerFirst();
    const { call, recalled, isRecorded } = await put(asked);
    expect([recalled, isRecorded, call.headers]).toEqual([undefined, true, {}]);
  });

  test.each<[string, Asked, CacheMode]>([
    ['where nothing is kept', {}, 'off'],
    ['by a key for which nothing is', { caller: { cacheMode: 'off' } }, 'always'],
    ['where it may differ each time', { isRepeatable: false }, 'auto'],
    ['of sounds, which go out as they come', { ask: { operation: 'speech' } }, 'always'],
    ['whose client wants nothing kept', { cacheControl: 'no-store' }, 'always'],
    ['that nobody can tell from others', { errand: { sameness: undefined as never } }, 'always'],
    ['that cannot be told twice', { errand: { replay: undefined as never } }, 'always'],
  ])('is neither looked for nor recorded %s', async (_when, asked, mode) => {
    await answerFirst();
    const { recalled, isRecorded } = await put(asked, mode);
    expect([recalled, isRecorded]).toEqual([undefined, false]);
  });

  test('is recorded even if it may differ where the key or the operator wants that', async () => {
    const [one, other] = [{ isRepeatable: false }, { isRepeatable: false, wording: 'Any news?' }];
    expect((await put(one, 'always')).isRecorded).toBe(true);
    const wanted = { ...other, caller: { cacheMode: 'always' } } as const;
    expect((await put(wanted, 'off')).isRecorded).toBe(true);
  });
});

test('an answer that credits cut short is kept for its own key, and nobody else', async () => {
  const at = { dialect: 'openai', model: { id: 'a/one' }, provider: { name: 'p' } };
  const keptOf = async (asked: Asked) => {
    const tape = (await put(asked)).call.memory?.tape;
    tape?.noteCap(true);
    tape?.begin(at as Partial<Offer> as Offer, 'whole');
    tape?.add('It');
    return tape?.recording('length')?.text;
  };
  expect([await keptOf({}), await keptOf({ idempotencyKey: 'k' })]).toEqual([undefined, 'It']);
});

describe('an Idempotency-Key', () => {
  const asked: Asked = { idempotencyKey: 'k', isRepeatable: false, caller: { cacheMode: 'off' } };

  test('claims the answer for its tenant and its question, whatever the cache does', async () => {
    expect((await put(asked)).isRecorded).toBe(true);
    await put({ ...asked, wording: 'Did it snow?' });
    expect(claims).toMatchObject([
      { tenantId: 'ten_1', key: 'k', requestId: 'r' },
      { tenantId: 'ten_1', key: 'k', requestId: 'r' },
    ]);
    expect(new Set(claims.map(({ fingerprint }) => fingerprint)).size).toBe(2);
  });

  test('brings the earlier answer, and says so', async () => {
    named = recording;
    const { call, recalled, isRecorded } = await put(asked);
    expect(recalled).toMatchObject({ relay: 'It rained.' });
    expect(call.headers).toMatchObject({ 'idempotent-replayed': 'true', 'x-cache': 'HIT' });
    expect(isRecorded).toBe(false);
  });

  test('brings nothing that cannot be given in the form that is asked for', async () => {
    const first = { requestId: 'r-1', receivedAt: 7, usage: noUsage, costCredits: 12, endedAt: 8 };
    named = { ...recording, first };
    expect((await put(asked)).call.headers).toMatchObject({ 'x-request-id': 'r-1' });
    const elsewhere = put({ ...asked, errand: { replay: () => undefined } });
    await expect(elsewhere).rejects.toThrow('It cannot be given in this form.');
  });

  test('tells nothing to a key that may use none of the models', async () => {
    named = recording;
    const both = { ...asked, ask: { models: ['a/one', 'b/two'] } };
    expect((await put({ ...both, caller: { models: ['c/*'] } })).recalled).toBeUndefined();
    expect(claims).toEqual([]);
    expect((await put({ ...both, caller: { models: ['b/*'] } })).recalled).toBeDefined();
  });
});
