import assert from 'node:assert/strict';
import type { Conversation, ReplyIdentity } from '../dialects/dialect.ts';
import type { Offer } from '../route/catalogue.ts';
import { type AttemptResult, attempt } from './attempt.ts';
import type { GuardedFetch } from './guarded-fetch.ts';
import { inlineImages } from './inline-images.ts';
import type { CheckAddress } from './user-address.ts';
import type { Watch } from './watch.ts';

export interface Trying {
  readonly conversation: Conversation;
  readonly offer: Offer;
  readonly identity: ReplyIdentity;
  /** The output cap to send; null leaves the client's own. */
  readonly outputTokensMax: number | null;
  readonly client: AbortSignal;
  readonly watch: Watch;
  readonly fetchGuarded: GuardedFetch;
  /** For addresses that tenants chose. */
  readonly checkAddress: CheckAddress;
}

const noImages: ReadonlyMap<string, string> = new Map();

/** Puts a conversation into an offer's words and tries it there. */
export async function tryOffer(trying: Trying): Promise<AttemptResult> {
  const { conversation, offer, identity, outputTokensMax, client, watch } = trying;
  const { ask } = conversation;
  const crossing = conversation.crossTo(offer.dialect);
  assert(crossing, `No crossing to ${offer.dialect} was planned.`);
  const images =
    offer.quirks.remote_images === 'inline' && ask.images.length > 0
      ? await inlineImages(ask.images, trying.fetchGuarded, client)
      : noImages;
  const { upstreamModel, quirks, provider } = offer;
  const request = crossing.write({ upstreamModel, quirks, outputTokensMax, images });
  const check = offer.own?.isUserAddress ? trying.checkAddress : undefined;
  const { stream } = ask;
  return attempt({ provider, check, request, crossing, identity, stream, client, watch });
}
