/** Compares what clients saw under load with the upstream's book and with our books. */
import { expect } from 'bun:test';
import { isObject } from '../../../src/core/json.ts';
import { openStore } from '../../../src/store/open.ts';
import type { FakeUpstreamProcess, LoggedRequest } from '../fake-upstream.ts';
import { balanceOf, chargesById, discrepancies } from '../ledger-check.ts';
import type { Traffic } from './traffic.ts';

/** Two credits per input word, three per output word. */
export const price = { prompt: '2', completion: '3' };
export const billOf = ({ tokens }: LoggedRequest) => 2 * tokens.prompt + 3 * tokens.completion;

export const credits = 1_000_000_000;

/** The requests that reached the upstream, by the user that each names. */
export async function sentTo(
  upstream: FakeUpstreamProcess,
): Promise<ReadonlyMap<string, LoggedRequest>> {
  const userOf = ({ json }: LoggedRequest) => (isObject(json) ? String(json.user) : '');
  return new Map((await upstream.requests()).map((entry) => [userOf(entry), entry]));
}

/** Returns how many requests were charged or refused for free, and how many were sent. */
export async function expectBooks(
  url: string,
  upstream: FakeUpstreamProcess,
  { ends }: Traffic,
): Promise<{ readonly booked: number; readonly sent: number }> {
  const sent = await sentTo(upstream);
  const { database } = await openStore(url);
  try {
    const charges = await chargesById(database);
    const wrongly = ends.flatMap(({ user, requestId }) => {
      const entry = sent.get(user);
      const bill = entry ? billOf(entry) : undefined;
      const charge = charges.get(requestId);
      return charge === bill ? [] : [{ user, bill, charge }];
    });
    expect(wrongly).toEqual([]);
    const spent = [...charges.values()].reduce((sum, charge) => sum + charge, 0);
    expect(await balanceOf(database, 'tenant:default')).toBe(credits - spent);
    expect(await discrepancies(database)).toEqual([]);
    return { booked: charges.size, sent: sent.size };
  } finally {
    await database.close();
  }
}
