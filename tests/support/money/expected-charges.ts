/** Compares the requests of clients under load with the upstream's log and with the ledger. */
import { expect } from 'bun:test';
import { isObject } from '../../../src/core/json.ts';
import { openStore } from '../../../src/store/open.ts';
import type { FakeUpstreamProcess, LoggedRequest } from '../fake-upstream.ts';
import { balanceOf, chargesById, discrepancies } from '../ledger-check.ts';
import type { Traffic } from './traffic.ts';

/** Input words cost 2 credits, and output words cost 3. */
export const price = { prompt: '2', completion: '3' };
export const expectedCharge = ({ tokens }: LoggedRequest) =>
  2 * tokens.prompt + 3 * tokens.completion;

export const credits = 1_000_000_000;

/** Returns the requests that reached the upstream, keyed by `user`. */
export async function requestsByUser(
  upstream: FakeUpstreamProcess,
): Promise<ReadonlyMap<string, LoggedRequest>> {
  const userOf = ({ json }: LoggedRequest) => (isObject(json) ? String(json.user) : '');
  return new Map((await upstream.requests()).map((entry) => [userOf(entry), entry]));
}

/** Expects correct charges. Returns the numbers of booked requests and of sent requests. */
export async function expectCorrectCharges(
  url: string,
  upstream: FakeUpstreamProcess,
  { ends }: Traffic,
): Promise<{ readonly booked: number; readonly sent: number }> {
  const sent = await requestsByUser(upstream);
  const { database } = await openStore(url);
  try {
    const charges = await chargesById(database);
    const wrong = ends.flatMap(({ user, requestId }) => {
      const entry = sent.get(user);
      const expected = entry ? expectedCharge(entry) : undefined;
      const charge = charges.get(requestId);
      return charge === expected ? [] : [{ user, expected, charge }];
    });
    expect(wrong).toEqual([]);
    const spent = [...charges.values()].reduce((sum, charge) => sum + charge, 0);
    expect(await balanceOf(database, 'tenant:default')).toBe(credits - spent);
    expect(await discrepancies(database)).toEqual([]);
    return { booked: charges.size, sent: sent.size };
  } finally {
    await database.close();
  }
}
