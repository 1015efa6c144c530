import { countAnswerLengthMax, countMsMax } from '../core/bounds.ts';
import type { UpstreamRequest } from '../dialects/dialect.ts';
import type { Offer } from '../route/catalogue.ts';
import { isOwnMistake, isPlain } from './attempt.ts';
import { send } from './client.ts';
import { checkFor } from './guard/user-address.ts';
import { Line } from './line.ts';
import type { Link } from './link.ts';
import { readAll, Source } from './source.ts';

interface ShortAnswer {
  readonly status: number;
  readonly text: string;
}

/**
 * Asks a provider something small beside the story: no other attempt is made, and its health is not
 * told of it. Undefined when there was no answer in time, or it was too long.
 */
export async function askShortly(
  offer: Offer,
  request: UpstreamRequest,
  client: AbortSignal,
  { watch, checkAddress }: Pick<Link, 'watch' | 'checkAddress'>,
): Promise<ShortAnswer | undefined> {
  const { provider } = offer;
  const line = new Line(watch, client, countMsMax);
  line.expectWithin(provider.timeoutMs);
  let source: Source | undefined;
  let text: string | undefined;
  try {
    const check = checkFor(offer, checkAddress);
    const response = await send(provider, request, line, check);
    if (!response.body || !isPlain(response)) return undefined;
    source = new Source(response.body, line, { idleMs: provider.idleTimeoutMs });
    text = await readAll(source, countAnswerLengthMax);
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
