import { countsAtOnceMax } from '../core/bounds.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import { Watch } from '../core/watch.ts';
import type { Count, TokenCount } from '../dialects/count.ts';
import { supportsParameter } from '../dialects/parameters.ts';
import type { MessagesParts } from '../http/calls/messages.ts';
import { ConcurrencyLimiter } from '../limits/concurrency.ts';
import { keepEntitled } from '../route/capability.ts';
import type { CatalogueOf, Offer } from '../route/catalogue.ts';
import type { Health } from '../route/health.ts';
import { plan } from '../route/plan.ts';
import { scrub } from '../upstream/disclosure.ts';
import type { AddressPolicy } from '../upstream/guard/address-guard.ts';
import { checkBy } from '../upstream/guard/user-address.ts';
import { refuseInnerAddresses, refuseInnerImages } from '../upstream/inline-images.ts';
import type { Link } from '../upstream/link.ts';
import { askShortly } from '../upstream/short-answer.ts';

/** Counts at the provider that would answer, beside the story: nothing is held or charged. */
export function makeCountUpstream(
  catalogueOf: CatalogueOf,
  health: Health,
  addressPolicy: AddressPolicy,
): MessagesParts['countUpstream'] {
  const around = { watch: new Watch(), checkAddress: checkBy(addressPolicy) };
  const places = new ConcurrencyLimiter();
  return async (count, caller, client) => {
    refuseInnerImages(count.ask.images, addressPolicy);
    refuseInnerAddresses(count.ask.addresses, addressPolicy);
    const offers = await plannedFor(count, caller, catalogueOf, health);
    const isAble = (offer: Offer) => count.isFor(offer.dialect) && health.state(offer) !== 'open';
    const offer = offers.find(isAble);
    if (!offer || !places.enter(caller.tenantId, countsAtOnceMax)) return undefined;
    try {
      return await countAt(offer, count, client, around);
    } finally {
      places.leave(caller.tenantId);
    }
  };
}

/**
 * The tokens that an offer counts; undefined when it does not say. A request that the offer finds
 * fault with is refused, in the words that sending it would get: an estimate would hide from the
 * client that the message itself cannot be sent.
 */
async function countAt(
  offer: Offer,
  count: Count,
  client: AbortSignal,
  around: Pick<Link, 'watch' | 'checkAddress'>,
): Promise<TokenCount | undefined> {
  const request = count.write(offer);
  if (!request) return undefined;
  const answer = await askShortly(offer, request, client, around);
  const counted = answer && count.read(answer.status, answer.text);
  if (counted && 'fault' in counted) throw invalidRequest(scrub(counted.fault, offer));
  return counted;
}

/** The offers of the model that would answer first: other models count tokens differently. */
async function plannedFor(
  { ask }: Count,
  caller: Caller,
  catalogueOf: CatalogueOf,
  health: Health,
): Promise<readonly Offer[]> {
  try {
    const catalogue = await catalogueOf(caller.tenantId);
    const around = { catalogue, health, errand: { misfit: () => null } };
    const planned = plan(ask, caller, { ...around, supports: supportsParameter });
    // Content of the operator's account is not even counted for tenants.
    const offers = keepEntitled(planned, ask);
    return offers.filter(({ model }) => model.id === offers[0]?.model.id);
  } catch (thrown) {
    // A request that nobody can serve can still be estimated; one that is forbidden is refused.
    if (thrown instanceof GatewayError && thrown.symbol !== 'forbidden') return [];
    throw thrown;
  }
}
