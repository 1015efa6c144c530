import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import type { ClaimStore } from '../../src/cache/idempotency.ts';
import { Idempotency } from '../../src/cache/idempotency.ts';
import { newRequestId, randomText } from '../../src/core/ids.ts';
import type { IdempotencyClaim, Recording } from '../../src/core/recording.ts';
import { toSettlementEntry } from '../../src/money/ledger.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { grant, makeRecord } from './bookings.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';

const leaseMs = 30_000;
const dayMs = 86_400_000;
const ours = { state: 'ours' } as const;
const running = { state: 'running' } as const;

describe.each([...engines])('claims of idempotency keys on $name', ({ empty }) => {
  let stores: TwoStores;
  let claims: ClaimStore;
  let elsewhere: ClaimStore;
  let tenantId: string;

  beforeAll(async () => {
    stores = await openTwice(empty);
    claims = stores.one.claims;
    elsewhere = stores.other.claims;
  }, 120_000);

  afterAll(() => stores.close());

  beforeEach(async () => {
    tenantId = await newTenant();
  });

  const newTenant = () => addTenant(stores.one);

  /** Another request with the same key. */
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

  test('one is made, runs, ends, and is told to everybody who repeats it', async () => {
    const first = claim();
    expect(await claims.claim(first, 1_000, leaseMs)).toEqual(ours);
    expect(await elsewhere.claim(claim(), 1_001, leaseMs)).toEqual(running);
    await finish(claims, first, recording, 2_000 + dayMs);
    const done = { state: 'done', recording } as const;
    expect(await elsewhere.claim(claim(), 2_000, leaseMs)).toEqual(done);
    expect(await claims.claim(claim(), 1_999 + dayMs, leaseMs)).toEqual(done);
  });

  test('what they take is counted in bytes, for each tenant', async () => {
    const others = await newTenant();
    const long = { ...recording, text: 'é'.repeat(100_000) };
    for (const [key, kept] of [
      ['long', long],
      ['none', null],
    ] as const) {
      const one = claim({ key });
      await claims.claim(one, 0, leaseMs);
      await finish(claims, one, kept, dayMs);
    }
    // What still runs has no answer to be counted.
    await claims.claim(claim({ tenantId: others }), 0, leaseMs);
    const bytes = await elsewhere.storedBytes();
    expect(Number(bytes.get(tenantId))).toBeWithin(201_000, 202_000);
    expect(bytes.has(others)).toBe(false);
  });

  test('what they take is counted once, until the hour in which they expire is over', async () => {
    const hourMs = 3_600_000;
    const [first, second] = [claim({ key: 'a' }), claim({ key: 'b' })];
    for (const one of [first, second]) await claims.claim(one, 0, leaseMs);
    const kept = async () => Number((await elsewhere.storedBytes()).get(tenantId));
    await finish(claims, first, recording, 1);
    const one = await kept();
    // By a process that did not hear that the store has it.
    expect(await finish(claims, first, recording, 1)).toBe(true);
    // By one who is too late: nothing of it is kept.
    expect(await finish(claims, claim({ key: 'a' }), recording, 1)).toBe(false);
    expect(await kept()).toBe(one);
    // By one that asks again before it has heard of its first try.
    const tries = [claims, elsewhere].map((store) => finish(store, second, recording, hourMs));
    expect(await Promise.all(tries)).toEqual([true, true]);
    expect(await kept()).toBe(2 * one);
    await elsewhere.removeExpired(hourMs - 1);
    expect(await kept()).toBe(2 * one);
    await elsewhere.removeExpired(hourMs);
    expect(await kept()).toBe(one);
  });

  test('what was kept before anybody counted is counted when the store is opened', async () => {
    const { url, remove } = await empty();
    const before = await openStore(url);
    const owner = await addTenant(before);
    for (const [key, hours] of [
      ['a', 3],
      ['b', 5],
    ] as const) {
      const one = claim({ tenantId: owner, key });
      await before.claims.claim(one, 0, leaseMs);
      await finish(before.claims, one, recording, hours * 3_600_000);
    }
    await before.claims.claim(claim({ tenantId: owner, key: 'running' }), 0, leaseMs);
    const { write } = before.database;
    const bytesOf = ({ read }: Store['database']) =>
      read.selectFrom('idempotency_bytes').selectAll().orderBy('hour').execute();
    const counted = await bytesOf(before.database);
    // As the store was before its seventh step: without what that one and the later ones made.
    await write.schema.dropTable('idempotency_bytes').execute();
    for (const index of ['request_log_by_key', 'request_log_by_model', 'api_keys_live']) {
      await write.schema.dropIndex(index).ifExists().execute();
    }
    await write.deleteFrom('migrations').where('number', '>=', 7).execute();
    await before.database.close();
    const { database } = await openStore(url);
    const again = await bytesOf(database);
    await database.close();
    remove();
    expect(again).toEqual(counted);
    expect(again.map(({ hour }) => hour)).toEqual([3, 5]);
  });

  test('an answer too long to be kept is done all the same', async () => {
    const first = claim();
    await claims.claim(first, 0, leaseMs);
    await finish(claims, first, null, dayMs);
    const again = await elsewhere.claim(claim(), 1, leaseMs);
    expect(again).toEqual({ state: 'done', recording: null });
  });

  test('keys are exact, and each tenant’s own', async () => {
    await claims.claim(claim({ key: 'Key' }), 0, leaseMs);
    expect(await elsewhere.claim(claim({ key: 'key' }), 0, leaseMs)).toEqual(ours);
    const stranger = claim({ key: 'Key', tenantId: await newTenant() });
    expect(await elsewhere.claim(stranger, 0, leaseMs)).toEqual(ours);
  });

  test('two tenants use one key at the same time in one process, each for its own', async () => {
    const idempotency = new Idempotency(claims);
    const client = new AbortController().signal;
    const recall = (one: IdempotencyClaim) => idempotency.lookUp(one, client, ({ text }) => text);
    const mine = await recall(claim());
    const theirs = await recall(claim({ tenantId: await newTenant(), fingerprint: 'g' }));
    expect([mine, theirs]).toEqual([
      { inFlight: expect.anything() },
      { inFlight: expect.anything() },
    ]);
  });

  test('another request under the same key is told so, running or done', async () => {
    const first = claim();
    await claims.claim(first, 0, leaseMs);
    const other = claim({ fingerprint: 'g' });
    expect(await elsewhere.claim(other, 1, leaseMs)).toEqual({ state: 'other_request' });
    await finish(claims, first, recording, dayMs);
    expect(await elsewhere.claim(other, 1, leaseMs)).toEqual({ state: 'other_request' });
    expect(await claims.claim(claim(), 1, leaseMs)).toMatchObject({ state: 'done' });
  });

  test('a released one is free at once, for any request', async () => {
    const first = claim();
    await claims.claim(first, 0, leaseMs);
    await claims.release(first);
    expect(await elsewhere.claim(claim({ fingerprint: 'g' }), 0, leaseMs)).toEqual(ours);
  });

  test('a done one is not released', async () => {
    const first = claim();
    await claims.claim(first, 0, leaseMs);
    await finish(claims, first, recording, dayMs);
    await claims.release(first);
    expect(await elsewhere.claim(claim(), 1, leaseMs)).toEqual({ state: 'done', recording });
  });

  test('one whose process died is free when its lease ends, not before', async () => {
    await claims.claim(claim(), 1_000, leaseMs);
    expect(await elsewhere.claim(claim(), 1_000 + leaseMs - 1, leaseMs)).toEqual(running);
    const next = claim({ fingerprint: 'g' });
    expect(await elsewhere.claim(next, 1_000 + leaseMs, leaseMs)).toEqual(ours);
    expect(await claims.claim(claim(), 1_000 + leaseMs, leaseMs)).toEqual({
      state: 'other_request',
    });
  });

  test('taking one over changes neither another key nor another tenant’s', async () => {
    const [stranger, beside] = [claim({ tenantId: await newTenant() }), claim({ key: 'beside' })];
    for (const one of [claim(), stranger, beside]) await claims.claim(one, 0, leaseMs);
    for (const one of [stranger, beside]) await finish(claims, one, recording, dayMs);
    expect(await elsewhere.claim(claim(), leaseMs, leaseMs)).toEqual(ours);
    for (const { tenantId, key } of [stranger, beside]) {
      const again = await claims.claim(claim({ tenantId, key }), leaseMs, leaseMs);
      expect(again).toEqual({ state: 'done', recording });
    }
  });

  test('an extended one stays with its process; a done one lives no longer by it', async () => {
    const [first, second] = [claim({ key: 'a' }), claim({ key: 'b' })];
    for (const one of [first, second]) await claims.claim(one, 0, leaseMs);
    await finish(claims, second, recording, 1_000);
    await claims.extend([first, second], 100_000);
    expect(await elsewhere.claim(claim({ key: 'a' }), 99_999, leaseMs)).toEqual(running);
    expect(await elsewhere.claim(claim({ key: 'b' }), 1_000, leaseMs)).toEqual(ours);
  });

  test('who was too late can neither extend nor release what another took over', async () => {
    const late = claim();
    await claims.claim(late, 0, leaseMs);
    const heir = claim();
    expect(await elsewhere.claim(heir, leaseMs, leaseMs)).toEqual(ours);
    await claims.release(late);
    await claims.extend([late], 10 * leaseMs);
    expect(await claims.claim(claim(), leaseMs + 1, leaseMs)).toEqual(running);
    const other = { ...recording, text: 'the heir’s' };
    expect(await finish(elsewhere, heir, other, dayMs)).toBe(true);
    // Of two answers that were given, the first one counts.
    expect(await finish(claims, late, recording, dayMs)).toBe(false);
    const told = await claims.claim(claim(), leaseMs + 1, leaseMs);
    expect(told).toEqual({ state: 'done', recording: other });
  });

  test('an answer that was given counts before one that another still makes', async () => {
    const late = claim();
    await claims.claim(late, 0, leaseMs);
    const heir = claim({ fingerprint: 'g' });
    expect(await elsewhere.claim(heir, leaseMs, leaseMs)).toEqual(ours);
    expect(await finish(claims, late, recording, dayMs)).toBe(true);
    await elsewhere.release(heir);
    const done = { state: 'done', recording } as const;
    expect(await elsewhere.claim(claim(), leaseMs + 1, leaseMs)).toEqual(done);
  });

  test('results are forgotten after their time, and their rows removed', async () => {
    const [first, second] = [claim({ key: 'a' }), claim({ key: 'b' })];
    for (const one of [first, second]) await claims.claim(one, 0, leaseMs);
    await finish(claims, first, recording, 5_000);
    await finish(claims, second, recording, 5_001);
    await elsewhere.removeExpired(5_000);
    const rows = await stores.one.database.read
      .selectFrom('idempotency_claims')
      .select('key')
      .where('tenant_id', '=', tenantId)
      .execute();
    expect(rows).toEqual([{ key: 'b' }]);
    expect(await claims.claim(claim({ key: 'b' }), 5_001, leaseMs)).toEqual(ours);
  });

  test('one that a clock’s jump removed while it ran is told once it ends', async () => {
    const first = claim();
    await claims.claim(first, 0, leaseMs);
    await elsewhere.removeExpired(2 * dayMs);
    expect(await finish(claims, first, recording, 3 * dayMs)).toBe(true);
    const again = await elsewhere.claim(claim(), dayMs, leaseMs);
    expect(again).toEqual({ state: 'done', recording });
    expect(await claims.claim(claim({ fingerprint: 'g' }), dayMs, leaseMs)).toEqual({
      state: 'other_request',
    });
  });

  describe('whose charge comes without an answer', () => {
    const lost = { state: 'done', recording: null } as const;

    /** Booked out of the journal of a process that answered while the store was away. */
    async function charge(
      claimed: readonly IdempotencyClaim[],
      ending: Partial<RequestRecord> = {},
    ) {
      const slips = claimed.map((claim) => {
        const { tenantId, requestId } = claim;
        const record = makeRecord({ tenantId, requestId, ...ending });
        return toSettlementEntry({ record, writtenOff: 0, keyAccount: null, keyCharge: 0, claim });
      });
      await stores.one.ledger.commit({
        processId: 'dead',
        entries: slips,
        mayRepeat: true,
        now: 0,
      });
    }

    test('are not made again, for a day', async () => {
      await grant(stores.one, tenantId, 1_000);
      const [charged, free] = [claim({ key: 'charged' }), claim({ key: 'free' })];
      for (const one of [charged, free]) await claims.claim(one, 0, leaseMs);
      await charge([charged]);
      await charge([free], { charges: noCharges });
      const again = (key: string, now: number, fingerprint = 'f') =>
        elsewhere.claim(claim({ key, fingerprint }), now, leaseMs);
      await elsewhere.removeExpired(dayMs - 1);
      expect(await again('charged', dayMs - 1)).toEqual(lost);
      expect(await again('charged', dayMs - 1, 'g')).toEqual({ state: 'other_request' });
      expect(await again('free', dayMs - 1)).toEqual(ours);
      expect(await again('charged', dayMs)).toEqual(ours);
    });

    test('are told once it comes', async () => {
      const first = claim();
      await claims.claim(first, 0, leaseMs);
      await charge([first]);
      // Its process has it, unless it is dead.
      expect(await elsewhere.claim(claim(), leaseMs - 1, leaseMs)).toEqual(running);
      expect(await elsewhere.claim(claim(), leaseMs, leaseMs)).toEqual(lost);
      expect(await finish(claims, first, recording, dayMs)).toBe(true);
      await charge([first]);
      expect(await elsewhere.claim(claim(), 1, leaseMs)).toEqual({ state: 'done', recording });
    });

    test('stay with a process that has it, and are lost when that dies', async () => {
      const [first, long] = [claim({ key: 'first' }), claim({ key: 'long' })];
      for (const one of [first, long]) await claims.claim(one, 0, leaseMs);
      await charge([first, long]);
      await finish(claims, long, null, dayMs);
      await claims.extend([first, long], 100_000);
      const again = (key: string, now: number) => elsewhere.claim(claim({ key }), now, leaseMs);
      expect(await again('first', 99_999)).toEqual(running);
      expect(await again('first', 100_000)).toEqual(lost);
      // That one has all the answer it will ever have, and lives no longer by it.
      expect(await again('long', 1)).toEqual(lost);
      expect(await again('long', dayMs)).toEqual(ours);
      // Nobody else keeps it.
      await elsewhere.extend([claim({ key: 'first' })], 10 * leaseMs);
      expect(await again('first', 100_000)).toEqual(lost);
    });

    test('keep the answer that came before it', async () => {
      const first = claim();
      await claims.claim(first, 0, leaseMs);
      await finish(claims, first, recording, dayMs);
      await charge([first]);
      expect(await elsewhere.claim(claim(), 1, leaseMs)).toEqual({ state: 'done', recording });
    });

    test('are charged once by a journal that has two, one twice, and a stranger’s', async () => {
      await grant(stores.one, tenantId, 1_000);
      const [one, two, stranger] = [claim(), claim(), claim({ tenantId: 'nobody' })];
      await charge([one, one, two, stranger]);
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

  test('of many rivals in two processes exactly one gets a key', async () => {
    for (let round = 0; round < 20; round++) {
      const rivals = Array.from({ length: 8 }, (_, at) =>
        (at % 2 ? claims : elsewhere).claim(claim({ key: `race${round}` }), 0, leaseMs),
      );
      const states = (await Promise.all(rivals)).map(({ state }) => state);
      expect(states.filter((state) => state === 'ours')).toHaveLength(1);
      expect(states.filter((state) => state === 'running')).toHaveLength(7);
    }
  });

  test('of many rivals for a lease that ended exactly one gets it', async () => {
    for (let round = 0; round < 20; round++) {
      const key = `heirs${round}`;
      await claims.claim(claim({ key }), 0, leaseMs);
      const rivals = Array.from({ length: 8 }, (_, at) =>
        (at % 2 ? claims : elsewhere).claim(claim({ key }), leaseMs, leaseMs),
      );
      const states = (await Promise.all(rivals)).map(({ state }) => state);
      expect(states.filter((state) => state === 'ours')).toHaveLength(1);
    }
  });

  test('a key that is claimed and released all the time never has two holders', async () => {
    let [holders, most, turns] = [0, 0, 0];
    const compete = async (store: ClaimStore) => {
      while (turns < 150) {
        const one = claim({ key: `relay-${tenantId}` });
        const { state } = await store.claim(one, 0, leaseMs);
        if (state !== 'ours') continue;
        holders += 1;
        turns += 1;
        most = Math.max(most, holders);
        await Bun.sleep(0);
        holders -= 1;
        await store.release(one);
      }
    };
    const rivals = [claims, elsewhere, claims, elsewhere, claims, elsewhere];
    await Promise.all(rivals.map(compete));
    expect(most).toBe(1);
  }, 120_000);

  test('of nobody cannot be made', async () => {
    const lost = claims.claim(claim({ tenantId: `nobody-${randomText(8)}` }), 0, leaseMs);
    expect(await lost.then(String, (error: Error) => error.message)).toMatch(/foreign key/i);
  });
});
