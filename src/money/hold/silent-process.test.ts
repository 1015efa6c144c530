/** What requests get while another process, which may have died, has leased the credits. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addCustomer } from '../../../tests/contracts/bookings.ts';
import { callerOf } from '../../../tests/support/money/settlements.ts';
import type { Caller } from '../../core/caller.ts';
import { openStore, type Store } from '../../store/open.ts';
import { Wallets } from './wallets.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-silent-process-'));
const exactly = (credits: number) => ({ requested: credits, minimum: credits });
let now = Date.UTC(2030, 0, 15, 12);
let store: Store;
let caller: Caller;
/** What happens while the process waits for answers to its recall. */
let meanwhile: () => unknown;
let silent: Wallets;
let wallets: Wallets;

beforeAll(async () => {
  store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
});
afterAll(async () => {
  await store.database.close();
  rmSync(folder, { recursive: true });
});
beforeEach(async () => {
  // A day later, so that the leases of the previous test have expired.
  now += 86_400_000;
  caller = callerOf((await addCustomer(store, 1_000)).tenantId);
  meanwhile = () => undefined;
  const pause = async () => void (await meanwhile());
  silent = new Wallets(store.ledger, `silent-${now}`, () => now, pause);
  wallets = new Wallets(store.ledger, `other-${now}`, () => now, pause);
});

async function rejectionOf(credits: number, of = caller): Promise<unknown> {
  try {
    await wallets.hold(of, exactly(credits));
  } catch (error) {
    return error;
  }
  return undefined;
}

test('a request that needs credits leased to a silent process gets 503 until the lease ends', async () => {
  await silent.hold(caller, exactly(600));
  now += 50_001;
  const retryAfterSeconds = 70;
  expect(await rejectionOf(401)).toMatchObject({
    ...{ symbol: 'service_unavailable', status: 503, retryAfterSeconds },
    message:
      "600 credits are leased to a gateway process that isn't responding. Try again in 70 s.",
  });
  expect((await wallets.hold(caller, exactly(400))).credits).toBe(400);
  await wallets.renew();
  now += 70_000;
  await wallets.renew();
  expect((await wallets.hold(caller, exactly(401))).credits).toBe(401);
});

test('a request that the entire balance cannot cover gets 402', async () => {
  await silent.hold(caller, exactly(600));
  expect(await rejectionOf(1_001)).toMatchObject({
    ...{ symbol: 'insufficient_credits', status: 402 },
    message: expect.stringContaining('This account has 1000 credits left'),
  });
});

test('a request gets 402 for credits that running requests of another process hold', async () => {
  await silent.hold(caller, exactly(600));
  let recalls = 0;
  // A third process recalls the same credits, which doesn't make the first one silent.
  meanwhile = async () => {
    await silent.answerRecalls();
    recalls += await store.ledger.recall(`tenant:${caller.tenantId}`, 'third');
  };
  expect(await rejectionOf(401)).toMatchObject({ symbol: 'insufficient_credits' });
  expect(recalls).toBeGreaterThan(0);
});

test('a request gets the credits that another process returns', async () => {
  await (await silent.hold(caller, exactly(600))).settle(0);
  meanwhile = () => silent.answerRecalls();
  expect((await wallets.hold(caller, exactly(1_000))).credits).toBe(1_000);
});

test("a request gets 503 if a silent process has leased the credits of the key's limit", async () => {
  const limited = callerOf(caller.tenantId, { keyId: `k-${now}`, limitCredits: 300 });
  await silent.hold(limited, exactly(200));
  expect(await rejectionOf(101, limited)).toMatchObject({ status: 503, retryAfterSeconds: 120 });
  expect(await rejectionOf(301, limited)).toMatchObject({ status: 402 });
});

test('a stream that needs credits leased to a silent process ends with 503', async () => {
  await silent.hold(caller, exactly(600));
  const hold = await wallets.hold(caller, exactly(300));
  const error = await hold.extend(101).catch((reason: unknown) => reason);
  expect(error).toMatchObject({ symbol: 'service_unavailable', retryAfterSeconds: 120 });
  expect(await hold.extend(701)).toBeNull();
});

test('a charge beyond the hold takes nothing from the lease of a silent process', async () => {
  await silent.hold(caller, exactly(600));
  const hold = await wallets.hold(caller, exactly(400));
  expect(await hold.settle(500)).toEqual({ wallet: 400, key: 0 });
});
