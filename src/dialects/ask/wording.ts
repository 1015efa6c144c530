import { longNumbersIn } from '../answer/exact-json.ts';
import type { Source } from './edit-body.ts';

/**
 * Fields that are no part of what a request asks: its way is told by its chain of models and its
 * preferences, the same ones for all spellings. (What is undefined is no field.)
 */
const wayUntold = { model: undefined, models: undefined, provider: undefined, route: undefined };

/**
 * Everything that decides the answer to a request in this dialect: what is asked, `more` that
 * stands elsewhere, and the numbers that JavaScript would round.
 */
export function wordingOf(
  dialect: string,
  asked: object,
  more: unknown,
  source: Source | null,
): unknown {
  return [dialect, { ...asked, ...wayUntold }, more, source ? longNumbersIn(source.text) : []];
}
