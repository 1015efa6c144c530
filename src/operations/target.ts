import type { MediaTarget } from '../dialects/dialect.ts';
import type { Offer } from '../route/catalogue.ts';

/** What is asked of an offer, and whose account pays for it. */
export function targetAt({ upstreamModel, quirks, model, own }: Offer): MediaTarget {
  const { output_modalities: outputModalities } = model;
  return { upstreamModel, quirks, outputModalities, isOwnAccount: own !== null };
}
