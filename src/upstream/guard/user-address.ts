import { lookup } from 'node:dns/promises';
import { unlessAborted } from '../../core/within.ts';
import type { Offer } from '../../route/catalogue.ts';
import type { AddressPolicy } from './address-guard.ts';
import { type GuardedTarget, guardTarget, type ResolveHost } from './guarded-target.ts';

/** Checks an address that a user gave: where it may be dialled, or a sentence why nowhere. */
export type CheckAddress = (url: string) => Promise<GuardedTarget | string>;

/** The check for a call to this offer: none where the operator chose the address. */
export function checkFor({ own }: Offer, checkAddress: CheckAddress): CheckAddress | undefined {
  return own?.isUserAddress ? checkAddress : undefined;
}

/** Every address of a name, as the machine we run on resolves it. */
export const resolveBySystem: ResolveHost = async (host) => {
  const answers = await lookup(host, { all: true });
  return answers.map((answer) => answer.address);
};

/** Checks by this policy at every use, since a name may lead elsewhere by then. */
export function checkBy(policy: AddressPolicy): CheckAddress {
  return (url) => guardTarget(url, policy, resolveBySystem);
}

/** Why a user's address is refused; null when it is not. */
export function refusalBy(policy: AddressPolicy): (url: string) => Promise<string | null> {
  const check = checkBy(policy);
  return async (url) => {
    const found = await check(url);
    return typeof found === 'string' ? found : null;
  };
}

/** A user's address that may not be dialled, or not any more. */
export class RefusedAddress extends Error {
  override readonly name = 'RefusedAddress';
}

/** The target; rejects with a sentence when it is refused, and when the signal fires first. */
export async function targetOf(
  url: string,
  check: CheckAddress,
  signal: AbortSignal,
): Promise<GuardedTarget> {
  const found = await unlessAborted(check(url), signal);
  if (found === undefined) throw signal.reason;
  if (typeof found === 'string') throw new RefusedAddress(found);
  return found;
}
