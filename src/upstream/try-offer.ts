import { strict as assert } from 'node:assert';
import type { ChatAsk } from '../core/ask.ts';
import type { Conversation, Crossing } from '../dialects/dialect.ts';
import { upstreamDialect } from '../dialects/upstreams.ts';
import type { Offer } from '../route/catalogue.ts';
import { type AttemptResult, attempt } from './attempt.ts';
import { inlineImages, refuseInnerImages } from './inline-images.ts';
import type { Link } from './link.ts';

interface Try {
  readonly crossing: Crossing;
  readonly ask: ChatAsk;
  readonly offer: Offer;
  readonly link: Link;
  /** Used instead of the link's cap, once a call has had its first round. */
  readonly outputTokensMax?: number | null;
  /** Records the answer: the link's own tape, or none. */
  readonly tape?: Link['tape'];
}

const noImages: ReadonlyMap<string, string> = new Map();

/** Puts a conversation into an offer's words and tries it there. */
export function tryOffer(
  conversation: Conversation,
  offer: Offer,
  link: Link,
): Promise<AttemptResult> {
  const crossing = conversation.crossTo(offer.dialect);
  assert(crossing, 'No crossing to this dialect was planned.');
  return tryCrossing({ crossing, ask: conversation.ask, offer, link, tape: link.tape });
}

/** Sends what a crossing makes of a request and reads what comes back over it. */
export function tryCrossing(order: Try): Promise<AttemptResult> {
  return order.ask.images.length === 0 ? tryWith(noImages, order) : tryWithImages(order);
}

async function tryWithImages(order: Try): Promise<AttemptResult> {
  const { ask, link, offer } = order;
  refuseInnerImages(ask.images, link.addressPolicy);
  const isInline =
    offer.quirks.remote_images === 'inline' || upstreamDialect(offer.dialect)?.takesBytesOnly;
  if (!isInline) return tryWith(noImages, order);
  return tryWith(await inlineImages(ask.images, link.fetchGuarded, link.client), order);
}

function tryWith(
  images: ReadonlyMap<string, string>,
  { crossing, ask, offer, link, outputTokensMax = link.outputTokensMax, tape }: Try,
): Promise<AttemptResult> {
  const { upstreamModel, quirks, model } = offer;
  const reasons = model.features.includes('reasoning');
  const usually = reasons ? upstreamDialect(offer.dialect)?.usualThinking : undefined;
  const request = crossing.write({
    upstreamModel,
    quirks,
    outputTokensMax,
    images,
    modelOutputTokensMax: model.max_completion_tokens ?? null,
    thinking: model.thinking ?? usually?.(upstreamModel) ?? null,
    reasons,
    outputModalities: model.output_modalities,
    isOwnAccount: offer.own !== null,
  });
  link.tellDropped(request.dropped ?? []);
  const { stream } = ask;
  tape?.begin(offer, stream ? 'stream' : 'whole');
  return attempt({ offer, link, request, crossing, stream, tape });
}
