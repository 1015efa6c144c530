import { countAnswerLengthMax, countMsMax } from '../core/bounds.ts';
import { invalidRequest } from '../core/errors.ts';
import type { CountCrossing } from '../dialects/count.ts';
import type { Offer } from '../route/catalogue.ts';
import { scrub } from '../upstream/disclosure.ts';
import { askShortly, type ShortPatience } from '../upstream/short-answer.ts';

/**
 * What an offer counts; undefined when it does not say. A request that it finds fault with is
 * refused: an estimate would hide from the client that the message itself cannot be sent, and the
 * sentence that says why is the one it would get then.
 */
export async function countAt(
  offer: Offer,
  crossing: CountCrossing,
  around: Pick<ShortPatience, 'client' | 'watch' | 'checkAddress'>,
): Promise<number | undefined> {
  const request = crossing.write(offer);
  if (!request) return undefined;
  const patience = { ...around, ms: countMsMax, lengthMax: countAnswerLengthMax };
  const answer = await askShortly(offer, request, patience);
  const counted = answer && crossing.read(answer.status, answer.text);
  if (typeof counted === 'object') throw invalidRequest(scrub(counted.fault, offer));
  return counted;
}
