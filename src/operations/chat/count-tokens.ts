import { concurrentCountsMax } from '../../core/bounds.ts';
import type { Caller } from '../../core/caller.ts';
import { DeadlineWatcher } from '../../core/deadlines.ts';
import { GatewayError, invalidRequest } from '../../core/errors.ts';
import type { TokenCount, TokenCountRequest } from '../../dialects/dialect.ts';
import { supportsParameter } from '../../dialects/parameters.ts';
import type { MessagesDeps } from '../../http/inference/chat.ts';
import { ConcurrencyLimiter } from '../../limits/admission.ts';
import { entitledOffers } from '../../route/capability.ts';
import type { CatalogOf, Offer } from '../../route/catalog.ts';
import type { Health } from '../../route/health.ts';
import { plan } from '../../route/plan.ts';
import type { AttemptContext } from '../../upstream/attempt.ts';
import { refusePrivateAddresses, refusePrivateImages } from '../../upstream/chat-attempt.ts';
import { redact } from '../../upstream/failure-message.ts';
import type { AddressPolicy } from '../../upstream/guard/address-policy.ts';
import { checkBy } from '../../upstream/guard/pinned-call.ts';
import { sendShortRequest } from '../../upstream/short-request.ts';

/** Counts at the provider that would answer, beside the story: nothing is held or charged. */
export function createTokenCounter(
  catalogOf: CatalogOf,
  health: Health,
  addressPolicy: AddressPolicy,
): MessagesDeps['countUpstream'] {
  const context = { deadlines: new DeadlineWatcher(), checkAddress: checkBy(addressPolicy) };
  const limiter = new ConcurrencyLimiter();
  return async (count, caller, client) => {
    refusePrivateImages(count.request.images, addressPolicy);
    refusePrivateAddresses(count.request.addresses, addressPolicy);
    const offers = await planFor(count, caller, catalogOf, health);
    const canCount = (offer: Offer) =>
      count.supports(offer.dialect) && health.state(offer) !== 'open';
    const offer = offers.find(canCount);
    if (!offer || !limiter.enter(caller.tenantId, concurrentCountsMax)) return undefined;
    try {
      return await countWith(offer, count, client, context);
    } finally {
      limiter.leave(caller.tenantId);
    }
  };
}

/**
 * The tokens that an offer counts; undefined when it does not say. A request that the offer finds
 * fault with is refused, in the words that sending it would get: an estimate would hide from the
 * client that the message itself cannot be sent.
 */
async function countWith(
  offer: Offer,
  count: TokenCountRequest,
  client: AbortSignal,
  context: Pick<AttemptContext, 'deadlines' | 'checkAddress'>,
): Promise<TokenCount | undefined> {
  const request = count.write(offer);
  if (!request) return undefined;
  const answer = await sendShortRequest(offer, request, client, context);
  const counted = answer && count.read(answer.status, answer.text);
  if (counted && 'fault' in counted) throw invalidRequest(redact(counted.fault, offer));
  return counted;
}

/** The offers of the model that would answer first: other models count tokens differently. */
async function planFor(
  { request }: TokenCountRequest,
  caller: Caller,
  catalogOf: CatalogOf,
  health: Health,
): Promise<readonly Offer[]> {
  try {
    const catalog = await catalogOf(caller.tenantId);
    const context = { catalog, health, operation: { incompatibility: () => null } };
    const planned = plan(request, caller, { ...context, supports: supportsParameter });
    // Content of the operator's account is not even counted for tenants.
    const offers = entitledOffers(planned, request);
    return offers.filter(({ model }) => model.id === offers[0]?.model.id);
  } catch (error) {
    // A request that nobody can serve can still be estimated; one that is forbidden is refused.
    if (error instanceof GatewayError && error.symbol !== 'forbidden') return [];
    throw error;
  }
}
