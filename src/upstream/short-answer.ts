import type { Watch } from '../core/watch.ts';
import type { UpstreamRequest } from '../dialects/dialect.ts';
import type { Offer } from '../route/catalogue.ts';
import { isOwnMistake, isPlain } from './attempt.ts';
import { send } from './client.ts';
import { type CheckAddress, checkFor } from './guard/user-address.ts';
import { Line, usualLimits } from './line.ts';
import { readAll, Source } from './source.ts';

interface ShortAnswer {
  readonly status: number;
  readonly text: string;
}

export interface ShortPatience {
  /** For all of it, if the provider's own timeout is not shorter. */
  readonly ms: number;
  readonly lengthMax: number;
  /** Aborts when the client leaves. */
  readonly client: AbortSignal;
  readonly watch: Watch;
  /** For addresses that tenants chose. */
  readonly checkAddress: CheckAddress;
}

/**
 * Asks a provider something small beside the story: no other attempt is made, and its health is
 * not told of it. Undefined when there was no answer in time, or a longer one.
 */
export async function askShortly(
  offer: Offer,
  request: UpstreamRequest,
  patience: ShortPatience,
): Promise<ShortAnswer | undefined> {
  const { provider } = offer;
  const { ms, lengthMax, client, watch } = patience;
  const line = new Line(watch, client, { ...usualLimits, attemptMs: ms });
  line.expectWithin(provider.timeoutMs);
  let source: Source | undefined;
  let text: string | undefined;
  try {
    const response = await send(provider, request, line, checkFor(offer, patience));
    if (!response.body || !isPlain(response)) return undefined;
    source = new Source(response.body, line, watch, { idleMs: provider.idleTimeoutMs });
    text = await readAll(source, lengthMax);
    return text === undefined ? undefined : { status: response.status, text };
  } catch (thrown) {
    if (isOwnMistake(thrown)) throw thrown;
    return undefined;
  } finally {
    source?.close();
    if (text === undefined) line.hangUp();
    else line.release();
  }
}
