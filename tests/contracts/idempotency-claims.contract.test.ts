import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { sql } from 'kysely';
import type { ClaimStore } from '../../src/cache/idempotency.ts';
import { Idempotency } from '../../src/cache/idempotency.ts';
import { newRequestId, randomText } from '../../src/core/ids.ts';
import type { IdempotencyClaim, Recording } from '../../src/core/recording.ts';
import { toSettlementEntry } from '../../src/money/ledger.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { idempotencyBytes } from '../../src/store/migrations/0007-idempotency-bytes.ts';
import { sqlTypes } from '../../src/store/migrations/migration.ts';
import { grant, makeRecord } from './bookings.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';

const leaseMs = 30_000;
const dayMs = 86_400_000;
const ours = { state: 'ours' } as const;
const running = { state: 'running' } as const;

describe.each([...engines])('SqlIdempotencyClaims on $name', ({ empty }) => {
  let stores: TwoStores;
  let claims: ClaimStore;
  let otherClaims: ClaimStore;
  let tenantId: string;

  beforeAll(async () => {
    stores = await openTwice(empty);
    claims = stores.one.claims;
    otherClaims = stores.other.claims;
  }, 120_000);

  afterAll(() => stores.close());

  beforeEach(async () => {
    tenantId = await newTenant();
  });

  const newTenant = () => addTenant(stores.one);

  /** Returns a claim for another request with the same key. */
  function claim(change: Partial<IdempotencyClaim> = {}): IdempotencyClaim {
    return { tenantId, key: 'k', fingerprint: 'f', requestId: newRequestId(), ...change };
  }

  const recording: Recording = {
    dialect: 'openai',
    form: 'stream',
    text: 'data: {"a":"\\u0000 \u0007 “ü” 😀 \ud800"}\n\n',
    model: 'a/b',
    provider: 'p',
  };

  const finish = (
    store: ClaimStore,
    claim: IdempotencyClaim,
    recording: Recording | null,
    expiresAt: number,
  ) => store.finish({ claim, recording, expiresAt });

  test('returns the recorded answer for repeated requests', async () => {
    const first = claim();
    expect(await claims.claim(first, 1_000, leaseMs)).toEqual(ours);
    expect(await otherClaims.claim(claim(), 1_001, leaseMs)).toEqual(running);
    await finish(claims, first, recording, 2_000 + dayMs);
    const done = { state: 'done', recording } as const;
    expect(await otherClaims.claim(claim(), 2_000, leaseMs)).toEqual(done);
    expect(await claims.claim(claim(), 1_999 + dayMs, leaseMs)).toEqual(done);
  });

  test('counts the stored bytes of each tenant', async () => {
    const others = await newTenant();
    const long = { ...recording, text: 'é'.repeat(100_000) };
    for (const [key, stored] of [
      ['long', long],
      ['none', null],
    ] as const) {
      const one = claim({ key });
      await claims.claim(one, 0, leaseMs);
      await finish(claims, one, stored, dayMs);
    }
    // A running request has no answer to count.
    await claims.claim(claim({ tenantId: others }), 0, leaseMs);
    const bytes = await otherClaims.storedBytes();
    expect(Number(bytes.get(tenantId))).toBeWithin(201_000, 202_000);
    expect(bytes.has(others)).toBe(false);
  });

  test('counts stored bytes once, until the hour of their expiry has ended', async () => {
    const hourMs = 3_600_000;
    const [first, second] = [claim({ key: 'a' }), claim({ key: 'b' })];
    for (const one of [first, second]) await claims.claim(one, 0, leaseMs);
    const storedBytes = async () => Number((await otherClaims.storedBytes()).get(tenantId));
    await finish(claims, first, recording, 1);
    const one = await storedBytes();
    // The process saves the answer again because the confirmation was lost.
    expect(await finish(claims, first, recording, 1)).toBe(true);
    // Another request with the same key finishes too late, so its answer isn't stored.
    expect(await finish(claims, claim({ key: 'a' }), recording, 1)).toBe(false);
    expect(await storedBytes()).toBe(one);
    // Save the same answer in two concurrent attempts.
    const tries = [claims, otherClaims].map((store) => finish(store, second, recording, hourMs));
    expect(await Promise.all(tries)).toEqual([true, true]);
    expect(await storedBytes()).toBe(2 * one);
    await otherClaims.removeExpired(hourMs - 1);
    expect(await storedBytes()).toBe(2 * one);
    await otherClaims.removeExpired(hourMs);
    expect(await storedBytes()).toBe(one);
  });

  test('counts answers of older versions in the migration', async () => {
    const { one } = stores;
    for (const [key, hours] of [
      ['a', 3],
      ['b', 5],
    ] as const) {
      const ended = claim({ key });
      await claims.claim(ended, 0, leaseMs);
      await finish(claims, ended, recording, hours * 3_600_000);
    }
    await claims.claim(claim({ key: 'running' }), 0, leaseMs);
    const { engine, read, write } = one.database;
    const counts = read.selectFrom('idempotency_bytes').selectAll();
    const countsOfTenant = () => counts.where('tenant_id', '=', tenantId).orderBy('hour').execute();
    const counted = await countsOfTenant();
    await write.schema.dropTable('idempotency_bytes').execute();
    for (const statement of idempotencyBytes.statements(sqlTypes[engine])) {
      await sql.raw(statement).execute(write);
    }
    const recounted = await countsOfTenant();
    expect(recounted).toEqual(counted);
    expect(recounted.map(({ hour }) => hour)).toEqual([3, 5]);
  });

  test('marks a request as done although its answer is too long to store', async () => {
    const first = claim();
    await claims.claim(first, 0, leaseMs);
    await finish(claims, first, null, dayMs);
    const repeated = await otherClaims.claim(claim(), 1, leaseMs);
    expect(repeated).toEqual({ state: 'done', recording: null });
  });

  test('compares keys exactly and separates tenants', async () => {
    await claims.claim(claim({ key: 'Key' }), 0, leaseMs);
    expect(await otherClaims.claim(claim({ key: 'key' }), 0, leaseMs)).toEqual(ours);
    const otherTenant = claim({ key: 'Key', tenantId: await newTenant() });
    expect(await otherClaims.claim(otherTenant, 0, leaseMs)).toEqual(ours);
  });

  test('lets 2 tenants use the same key at the same time', async () => {
    const idempotency = new Idempotency(claims);
    const client = new AbortController().signal;
    const lookUp = (one: IdempotencyClaim) => idempotency.lookUp(one, client, ({ text }) => text);
    const first = await lookUp(claim());
    const second = await lookUp(claim({ tenantId: await newTenant(), fingerprint: 'g' }));
    expect([first, second]).toEqual([
      { inFlight: expect.anything() },
      { inFlight: expect.anything() },
    ]);
  });

  test('detects a different request with the same key, running or done', async () => {
    const first = claim();
    await claims.claim(first, 0, leaseMs);
    const other = claim({ fingerprint: 'g' });
    expect(await otherClaims.claim(other, 1, leaseMs)).toEqual({ state: 'other_request' });
    await finish(claims, first, recording, dayMs);
    expect(await otherClaims.claim(other, 1, leaseMs)).toEqual({ state: 'other_request' });
    expect(await claims.claim(claim(), 1, leaseMs)).toMatchObject({ state: 'done' });
  });

  test('frees a released key immediately for any request', async () => {
    const first = claim();
    await claims.claim(first, 0, leaseMs);
    await claims.release(first);
    expect(await otherClaims.claim(claim({ fingerprint: 'g' }), 0, leaseMs)).toEqual(ours);
  });

  test('does not release a finished request', async () => {
    const first = claim();
    await claims.claim(first, 0, leaseMs);
    await finish(claims, first, recording, dayMs);
    await claims.release(first);
    expect(await otherClaims.claim(claim(), 1, leaseMs)).toEqual({ state: 'done', recording });
  });

  test('frees the key of a dead process when its lease expires', async () => {
    await claims.claim(claim(), 1_000, leaseMs);
    expect(await otherClaims.claim(claim(), 1_000 + leaseMs - 1, leaseMs)).toEqual(running);
    const next = claim({ fingerprint: 'g' });
    expect(await otherClaims.claim(next, 1_000 + leaseMs, leaseMs)).toEqual(ours);
    expect(await claims.claim(claim(), 1_000 + leaseMs, leaseMs)).toEqual({
      state: 'other_request',
    });
  });

  test('takes over a key without changing other keys or tenants', async () => {
    const [otherTenant, otherKey] = [
      claim({ tenantId: await newTenant() }),
      claim({ key: 'other' }),
    ];
    for (const one of [claim(), otherTenant, otherKey]) await claims.claim(one, 0, leaseMs);
    for (const one of [otherTenant, otherKey]) await finish(claims, one, recording, dayMs);
    expect(await otherClaims.claim(claim(), leaseMs, leaseMs)).toEqual(ours);
    for (const { tenantId, key } of [otherTenant, otherKey]) {
      const repeated = await claims.claim(claim({ tenantId, key }), leaseMs, leaseMs);
      expect(repeated).toEqual({ state: 'done', recording });
    }
  });

  test('extends the lease of running requests but not the life of answers', async () => {
    const [first, second] = [claim({ key: 'a' }), claim({ key: 'b' })];
    for (const one of [first, second]) await claims.claim(one, 0, leaseMs);
    await finish(claims, second, recording, 1_000);
    await claims.extend([first, second], 100_000);
    expect(await otherClaims.claim(claim({ key: 'a' }), 99_999, leaseMs)).toEqual(running);
    expect(await otherClaims.claim(claim({ key: 'b' }), 1_000, leaseMs)).toEqual(ours);
  });

  test('does not let a late process extend or release a key that was taken over', async () => {
    const late = claim();
    await claims.claim(late, 0, leaseMs);
    const successor = claim();
    expect(await otherClaims.claim(successor, leaseMs, leaseMs)).toEqual(ours);
    await claims.release(late);
    await claims.extend([late], 10 * leaseMs);
    expect(await claims.claim(claim(), leaseMs + 1, leaseMs)).toEqual(running);
    const other = { ...recording, text: 'of the successor' };
    expect(await finish(otherClaims, successor, other, dayMs)).toBe(true);
    // Only the first of two answers is stored.
    expect(await finish(claims, late, recording, dayMs)).toBe(false);
    const repeated = await claims.claim(claim(), leaseMs + 1, leaseMs);
    expect(repeated).toEqual({ state: 'done', recording: other });
  });

  test('stores the answer of a late process if its successor has none yet', async () => {
    const late = claim();
    await claims.claim(late, 0, leaseMs);
    const successor = claim({ fingerprint: 'g' });
    expect(await otherClaims.claim(successor, leaseMs, leaseMs)).toEqual(ours);
    expect(await finish(claims, late, recording, dayMs)).toBe(true);
    await otherClaims.release(successor);
    const done = { state: 'done', recording } as const;
    expect(await otherClaims.claim(claim(), leaseMs + 1, leaseMs)).toEqual(done);
  });

  test('removes the rows of expired answers', async () => {
    const [first, second] = [claim({ key: 'a' }), claim({ key: 'b' })];
    for (const one of [first, second]) await claims.claim(one, 0, leaseMs);
    await finish(claims, first, recording, 5_000);
    await finish(claims, second, recording, 5_001);
    await otherClaims.removeExpired(5_000);
    const rows = await stores.one.database.read
      .selectFrom('idempotency_claims')
      .select('key')
      .where('tenant_id', '=', tenantId)
      .execute();
    expect(rows).toEqual([{ key: 'b' }]);
    expect(await claims.claim(claim({ key: 'b' }), 5_001, leaseMs)).toEqual(ours);
  });

  test('stores the answer of a running request whose row was removed after a clock jump', async () => {
    const first = claim();
    await claims.claim(first, 0, leaseMs);
    await otherClaims.removeExpired(2 * dayMs);
    expect(await finish(claims, first, recording, 3 * dayMs)).toBe(true);
    const repeated = await otherClaims.claim(claim(), dayMs, leaseMs);
    expect(repeated).toEqual({ state: 'done', recording });
    expect(await claims.claim(claim({ fingerprint: 'g' }), dayMs, leaseMs)).toEqual({
      state: 'other_request',
    });
  });

  describe('with a charge but no answer', () => {
    const tooLong = { state: 'done', recording: null } as const;
    const paid = { state: 'ours', isPaid: true } as const;

    /** Books charges from the journal of a process that answered during an outage of the store. */
    async function charge(
      claimed: readonly IdempotencyClaim[],
      change: Partial<RequestRecord> = {},
      terms: { readonly isReplay?: true } = {},
    ) {
      const entries = claimed.map((claim) => {
        const { tenantId, requestId } = claim;
        const record = makeRecord({ tenantId, requestId, ...change });
        return toSettlementEntry({ record, writtenOff: 0, keyAccount: null, keyCharge: 0, claim });
      });
      await stores.one.ledger.commit({
        processId: 'dead',
        entries,
        mayRepeat: true,
        now: 0,
        ...terms,
      });
    }

    test('charges the request only once a day', async () => {
      await grant(stores.one, tenantId, 1_000);
      const [charged, free] = [claim({ key: 'charged' }), claim({ key: 'free' })];
      for (const one of [charged, free]) await claims.claim(one, 0, leaseMs);
      await charge([charged]);
      await charge([free], { charges: noCharges });
      const claimAgain = (key: string, now: number, fingerprint = 'f') =>
        otherClaims.claim(claim({ key, fingerprint }), now, leaseMs);
      await otherClaims.removeExpired(dayMs - 1);
      expect(await claimAgain('charged', dayMs - 1, 'g')).toEqual({ state: 'other_request' });
      expect(await claimAgain('free', dayMs - 1)).toEqual(ours);
      expect(await claimAgain('charged', dayMs)).toEqual(ours);
    });

    test('lets one request at a time answer again without a charge', async () => {
      await grant(stores.one, tenantId, 1_000);
      const first = claim();
      await claims.claim(first, 0, leaseMs);
      await charge([first], {}, { isReplay: true });
      // The process is dead, so nobody waits for it.
      const repeats = [claim(), claim(), claim(), claim()];
      const results = await Promise.all(
        repeats.map((one, index) =>
          (index % 2 === 0 ? claims : otherClaims).claim(one, 1, leaseMs),
        ),
      );
      const second = repeats[results.findIndex((result) => 'isPaid' in result)] ?? first;
      expect(results.filter(({ state }) => state !== 'running')).toEqual([paid]);
      expect(await claims.claim(claim(), 2, leaseMs)).toEqual(running);
      // The second request fails.
      await otherClaims.release(second);
      const third = claim();
      expect(await claims.claim(third, 3, leaseMs)).toEqual(paid);
      // The process of the third request dies.
      const fourth = claim();
      expect(await otherClaims.claim(fourth, 3 + leaseMs - 1, leaseMs)).toEqual(running);
      expect(await otherClaims.claim(fourth, 3 + leaseMs, leaseMs)).toEqual(paid);
      expect(await finish(claims, third, recording, dayMs)).toBe(false);
      expect(await finish(otherClaims, fourth, recording, 2 * dayMs)).toBe(true);
      expect(await claims.claim(claim(), 5 + leaseMs, leaseMs)).toEqual({
        state: 'done',
        recording,
      });
    });

    test('returns the answer once it is saved', async () => {
      const first = claim();
      await claims.claim(first, 0, leaseMs);
      await charge([first]);
      // The process that has the answer may still save it until its lease expires.
      expect(await otherClaims.claim(claim(), leaseMs - 1, leaseMs)).toEqual(running);
      expect(await finish(claims, first, recording, dayMs)).toBe(true);
      await charge([first]);
      expect(await otherClaims.claim(claim(), 1, leaseMs)).toEqual({ state: 'done', recording });
    });

    test('waits for the process that has the answer until its lease expires', async () => {
      const [first, long] = [claim({ key: 'first' }), claim({ key: 'long' })];
      for (const one of [first, long]) await claims.claim(one, 0, leaseMs);
      await charge([first, long]);
      await finish(claims, long, null, dayMs);
      await claims.extend([first, long], 100_000);
      const claimAgain = (key: string, now: number) =>
        otherClaims.claim(claim({ key }), now, leaseMs);
      expect(await claimAgain('first', 99_999)).toEqual(running);
      // This request is finished without a stored answer, so extending it has no effect.
      expect(await claimAgain('long', 1)).toEqual(tooLong);
      expect(await claimAgain('long', dayMs)).toEqual(ours);
      // Another request can't extend the lease.
      await otherClaims.extend([claim({ key: 'first' })], 10 * leaseMs);
      expect(await claimAgain('first', 100_000)).toEqual(paid);
    });

    test('keeps an answer that was saved before the charge', async () => {
      const first = claim();
      await claims.claim(first, 0, leaseMs);
      await finish(claims, first, recording, dayMs);
      await charge([first]);
      expect(await otherClaims.claim(claim(), 1, leaseMs)).toEqual({ state: 'done', recording });
    });

    test('charges a key once if a journal contains duplicates and other tenants', async () => {
      await grant(stores.one, tenantId, 1_000);
      const [one, two, unknown] = [claim(), claim(), claim({ tenantId: 'nobody' })];
      await charge([one, one, two, unknown]);
      const rows = await stores.one.database.read
        .selectFrom('request_log')
        .select(['model_charge', 'status'])
        .where('tenant_id', '=', tenantId)
        .orderBy('model_charge')
        .execute();
      const { charges } = makeRecord({});
      expect(rows).toEqual([
        { model_charge: 0, status: 'success' },
        { model_charge: charges.modelCharge, status: 'success' },
      ]);
    });
  });

  test('gives a key to exactly 1 of 8 concurrent requests', async () => {
    for (let round = 0; round < 20; round++) {
      const attempts = Array.from({ length: 8 }, (_, i) =>
        (i % 2 ? claims : otherClaims).claim(claim({ key: `race${round}` }), 0, leaseMs),
      );
      const states = (await Promise.all(attempts)).map(({ state }) => state);
      expect(states.filter((state) => state === 'ours')).toHaveLength(1);
      expect(states.filter((state) => state === 'running')).toHaveLength(7);
    }
  });

  test('gives an expired lease to exactly 1 of 8 concurrent requests', async () => {
    for (let round = 0; round < 20; round++) {
      const key = `expired${round}`;
      await claims.claim(claim({ key }), 0, leaseMs);
      const attempts = Array.from({ length: 8 }, (_, i) =>
        (i % 2 ? claims : otherClaims).claim(claim({ key }), leaseMs, leaseMs),
      );
      const states = (await Promise.all(attempts)).map(({ state }) => state);
      expect(states.filter((state) => state === 'ours')).toHaveLength(1);
    }
  });

  test('never gives a key to 2 requests at once while requests claim and release it', async () => {
    let [owners, ownersMax, turns] = [0, 0, 0];
    const compete = async (store: ClaimStore) => {
      while (turns < 150) {
        const one = claim({ key: `contended-${tenantId}` });
        const { state } = await store.claim(one, 0, leaseMs);
        if (state !== 'ours') continue;
        owners += 1;
        turns += 1;
        ownersMax = Math.max(ownersMax, owners);
        await Bun.sleep(0);
        owners -= 1;
        await store.release(one);
      }
    };
    const attempts = [claims, otherClaims, claims, otherClaims, claims, otherClaims];
    await Promise.all(attempts.map(compete));
    expect(ownersMax).toBe(1);
  }, 120_000);

  test('rejects a claim of an unknown tenant', async () => {
    const rejected = claims.claim(claim({ tenantId: `nobody-${randomText(8)}` }), 0, leaseMs);
    expect(await rejected.then(String, (error: Error) => error.message)).toMatch(/foreign key/i);
  });
});
