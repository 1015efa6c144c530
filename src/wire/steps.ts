import type { Books } from '../books.ts';
import type { Config } from '../config/config.ts';
import { supportsParameter } from '../dialects/parameters.ts';
import { identityOf, type Steps } from '../gateway.ts';
import { Admission } from '../limits/admit.ts';
import { ConcurrencyLimiter } from '../limits/concurrency.ts';
import { RateLimiter } from '../limits/rate.ts';
import { reserve } from '../reserve.ts';
import { chatMisfit, keepFittingImages } from '../route/capability.ts';
import type { CallableModels, Offer } from '../route/catalogue.ts';
import { Health } from '../route/health.ts';
import { plan } from '../route/plan.ts';
import { settle } from '../settle.ts';
import { openFirst } from '../upstream/fallback.ts';
import { createGuardedFetch } from '../upstream/guarded-fetch.ts';
import { tryOffer } from '../upstream/try-offer.ts';
import { checkPublicAddress } from '../upstream/user-address.ts';
import { Watch } from '../upstream/watch.ts';

/** The steps of gateway.ts, each tied to the parts it works on. */
export function makeSteps(
  config: Config,
  catalogueOf: (tenantId: string) => Promise<CallableModels>,
  books: Books,
): (headers: Record<string, string>) => Steps {
  const admission = new Admission(new RateLimiter(), new ConcurrencyLimiter(), config.limits);
  const health = new Health();
  const watch = new Watch();
  const fetchGuarded = createGuardedFetch({});
  const { creditsPerUsd } = config;
  return (headers) => ({
    countRequest: ({ caller }) => admission.countRequest(caller, headers),
    enter: ({ caller }) => admission.enter(caller),
    async plan({ caller }, { ask, crossTo }) {
      const offers = plan(ask, caller, {
        catalogue: await catalogueOf(caller.tenantId),
        health,
        misfit: (offer) =>
          crossTo(offer.dialect) ? chatMisfit(offer.model, ask) : 'cannot chat with this client',
        supports: (offer, name) => supportsParameter(offer, name),
      });
      return keepFittingImages(offers, ask);
    },
    reserve: (call, { ask }, offers) =>
      reserve(call, ask, offers, {
        creditsPerUsd,
        hold: (held, order) => books.hold(held, order),
        dispatched: (sent) => books.dispatched(sent),
      }),
    openFirst(call, conversation, reservation) {
      const attemptAt = (offer: Offer) =>
        tryOffer({
          conversation,
          offer,
          identity: { ...identityOf(call, offer.model.id), provider: offer.provider.name },
          outputTokensMax: reservation.capFor(offer),
          client: call.client,
          watch,
          fetchGuarded,
          checkAddress: checkPublicAddress,
        });
      return openFirst(reservation.offers, attemptAt, health, call.trail, call.client);
    },
    settle: (call, ending) =>
      settle(call, ending, call.hold, {
        creditsPerUsd,
        keep: (settlement, wasDispatched) => books.keep(settlement, wasDispatched),
        observeSpeed: (offer, tokensPerSecond) => health.observeSpeed(offer, tokensPerSecond),
        observeBreak: (offer) => health.failed(offer),
      }),
  });
}
