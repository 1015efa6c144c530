import { countAnswerLengthMax, countMsMax } from '../core/bounds.ts';
import type { UpstreamRequest } from '../dialects/dialect.ts';
import type { Offer } from '../route/catalog.ts';
import type { AttemptContext } from './attempt.ts';
import { isProgrammingError, isUncompressed } from './attempt.ts';
import { checkFor } from './guard/pinned-call.ts';
import { send } from './provider-client.ts';
import { readAll, TextSource } from './text-source.ts';
import { UpstreamCall } from './upstream-call.ts';

interface ShortResponse {
  readonly status: number;
  readonly text: string;
}

/**
 * Sends a side request, such as a token count. It isn't retried elsewhere and doesn't affect the
 * provider's health. Returns undefined if no answer arrives in time or the answer is too long.
 */
export async function sendShortRequest(
  offer: Offer,
  request: UpstreamRequest,
  clientSignal: AbortSignal,
  context: Pick<AttemptContext, 'deadlines' | 'checkAddress'>,
): Promise<ShortResponse | undefined> {
  const { provider } = offer;
  const upstreamCall = new UpstreamCall(context.deadlines, clientSignal, countMsMax);
  upstreamCall.expectDataWithin(provider.timeoutMs);
  let source: TextSource | undefined;
  let text: string | undefined;
  try {
    const check = checkFor(offer, context);
    const response = await send(provider, request, upstreamCall, check);
    if (!response.body || !isUncompressed(response)) return undefined;
    source = new TextSource(response.body, upstreamCall, { idleMs: provider.idleTimeoutMs });
    text = await readAll(source, countAnswerLengthMax);
    return text === undefined ? undefined : { status: response.status, text };
  } catch (error) {
    if (isProgrammingError(error)) throw error;
    return undefined;
  } finally {
    source?.close();
    if (text === undefined) upstreamCall.cancel();
    else upstreamCall.release();
  }
}
