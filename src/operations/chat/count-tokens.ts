import { concurrentCountsMax } from '../../core/bounds.ts';
import { DeadlineWatcher } from '../../core/deadlines.ts';
import { GatewayError, invalidRequest } from '../../core/errors.ts';
import type { TokenCount, TokenCountRequest } from '../../dialects/dialect.ts';
import { supportsParameter } from '../../dialects/parameters.ts';
import { ConcurrencyLimiter } from '../../limits/concurrency.ts';
import { entitledOffers } from '../../route/capability.ts';
import type { CatalogOf, Offer } from '../../route/catalog.ts';
import type { Health } from '../../route/health.ts';
import { plan } from '../../route/plan.ts';
import type { ProviderKeys } from '../../route/provider-keys.ts';
import { aliasRequestOf, type RequestedBy } from '../../route/requested-models.ts';
import type { AttemptContext } from '../../upstream/attempt.ts';
import { redact } from '../../upstream/failure-message.ts';
import type { AddressPolicy } from '../../upstream/guard/address-policy.ts';
import { resolverFor } from '../../upstream/guard/host-names.ts';
import { guardTarget } from '../../upstream/guard/pinned-call.ts';
import { rejectPrivateImages, rejectPrivateUrls } from '../../upstream/request-urls.ts';
import { sendShortRequest } from '../../upstream/short-request.ts';

type TokenCounter = (
  count: TokenCountRequest,
  requestedBy: RequestedBy,
  clientSignal: AbortSignal,
) => Promise<TokenCount | undefined>;

interface OfferStates {
  readonly health: Health;
  readonly providerKeys: Pick<ProviderKeys, 'rotationOf'>;
}

/**
 * Returns a function that counts tokens with the provider that would receive the request. It
 * bypasses the request pipeline: nothing is held or charged.
 */
export function createTokenCounter(
  catalogOf: CatalogOf,
  { health, providerKeys }: OfferStates,
  addressPolicy: AddressPolicy,
): TokenCounter {
  const deadlines = new DeadlineWatcher();
  const limiter = new ConcurrencyLimiter();
  return async (count, requestedBy, clientSignal) => {
    const { caller } = requestedBy;
    rejectPrivateImages(count.request.images, addressPolicy);
    rejectPrivateUrls(count.request.urls, addressPolicy);
    const offers = await planFor(count, requestedBy, catalogOf, health);
    const canCount = (offer: Offer) =>
      count.supports(offer.dialect) && health.state(offer) !== 'open';
    const planned = offers.find(canCount);
    if (!planned || !limiter.acquire(caller.tenantId, concurrentCountsMax)) return undefined;
    const rotation =
      planned.keys && providerKeys.rotationOf(planned, { caller, operation: undefined });
    const resolve = resolverFor(caller.tenantId);
    const checkAddress = (url: string) => guardTarget(url, addressPolicy, resolve);
    try {
      const offer = rotation ? await rotation.next() : planned;
      const counted =
        offer && (await countWith(offer, count, clientSignal, { deadlines, checkAddress }));
      if (counted) rotation?.answered();
      return counted;
    } finally {
      rotation?.end();
      limiter.release(caller.tenantId);
    }
  };
}

/**
 * Returns the provider's count, or undefined if it returns none. If the provider rejects the
 * request, throws 400 with its message. An estimate would hide that the request can't be sent.
 */
async function countWith(
  offer: Offer,
  count: TokenCountRequest,
  clientSignal: AbortSignal,
  context: Pick<AttemptContext, 'deadlines' | 'checkAddress'>,
): Promise<TokenCount | undefined> {
  const request = count.write(offer);
  if (!request) return undefined;
  const answer = await sendShortRequest(offer, request, clientSignal, context);
  const counted = answer && count.read(answer.status, answer.text);
  if (counted && 'fault' in counted) throw invalidRequest(redact(counted.fault, offer));
  return counted;
}

/** Returns the offers of the first model in the plan. Other models count tokens differently. */
async function planFor(
  { request }: TokenCountRequest,
  requestedBy: RequestedBy,
  catalogOf: CatalogOf,
  health: Health,
): Promise<readonly Offer[]> {
  try {
    const { caller } = requestedBy;
    const catalog = await catalogOf(caller, Date.now());
    const context = { catalog, health, operation: { incompatibility: () => null } };
    const aliasRequest = aliasRequestOf(requestedBy, request);
    const models = catalog.resolveAll(request.models, aliasRequest);
    const granted = catalog.grantedBy(request.models, aliasRequest);
    const planned = plan({ ...request, models, granted }, caller, {
      ...context,
      supports: supportsParameter,
    });
    // Tenants must not learn the token count of content in the operator's account.
    const offers = entitledOffers(planned, request);
    return offers.filter(({ model }) => model.id === offers[0]?.model.id);
  } catch (error) {
    // If no offer can serve the request, its tokens are estimated. A forbidden request is rejected.
    if (error instanceof GatewayError && error.symbol !== 'forbidden') return [];
    throw error;
  }
}
