import type { Offer } from './catalog.ts';
import { type SessionSource, sessionOf, stickyScore } from './stickiness.ts';

// Splits the requests of a model between endpoints of the same priority, by their weights.

export interface WeightContext {
  /** The request whose session decides between endpoints with weights. */
  readonly session?: SessionSource;
  /**
   * Returns a random 32-bit number, which decides for requests without a session. Absent for
   * previews, which show the endpoint with the highest weight first.
   */
  random?(): number;
}

/**
 * Orders the offers of each level by weight: each is first in proportion to its weight, and so on
 * among the others. The requests of a session always get the same order.
 */
export function orderByWeight(
  sorted: readonly Offer[],
  levelOf: (offer: Offer) => string,
  { session: source, random }: WeightContext,
): readonly Offer[] {
  const session = source ? sessionOf(source, sorted[0]?.model.stickiness) : null;
  const drawn = session ?? random?.() ?? null;
  return [...Map.groupBy(sorted, levelOf).values()].flatMap((offers) => rank(offers, drawn));
}

function rank(offers: readonly Offer[], drawn: number | null): readonly Offer[] {
  // Only endpoints with the weight 0 can be next to endpoints without a weight.
  if (offers.length < 2 || offers.some(({ weight }) => weight === null)) return offers;
  const scoreOf = (offer: Offer) => {
    const weight = offer.weight ?? 0;
    return drawn === null ? weight : stickyScore(drawn, nameOf(offer), weight);
  };
  const ranked = offers.map((offer) => ({ offer, score: scoreOf(offer) }));
  return ranked.sort((a, b) => b.score - a.score).map(({ offer }) => offer);
}

function nameOf({ provider, upstreamModel }: Offer): string {
  return `${provider.name}\n${upstreamModel}`;
}
