import type { ErrorSymbol } from '../core/errors.ts';
import { type RequestRecord, totalCharge } from './request-record.ts';

/** The symbols of docs/errors.md, for somebody who never read it. */
const sentences: Readonly<Record<string, string>> = {
  invalid_request_error: 'The request itself was refused: repeating it does not help.',
  invalid_api_key: 'Its key was not accepted.',
  insufficient_credits:
    'There were not enough credits for it: in the wallet, or within the limit of its key.',
  forbidden: 'Its key may not do this.',
  model_capability_mismatch: 'The model cannot do what was asked of it.',
  rate_limit_exceeded: 'There were too many requests at that time.',
  upstream_error: 'No provider gave a usable answer.',
  service_unavailable: 'Nobody was there to answer it at that time.',
  internal_error: 'Something broke in the gateway.',
} satisfies Record<ErrorSymbol, string>;

/** Errors of answers that had begun, by the provider, or by us: the store is away, or we stop. */
const breaksOff: ReadonlySet<string> = new Set<ErrorSymbol>([
  'upstream_error',
  'service_unavailable',
]);

/** Why a request failed, in one sentence; null when it did not. */
export function failureOf({ error, refusal, attempts, charges }: RequestRecord): string | null {
  if (error === null) return null;
  if (breaksOff.has(error) && attempts.at(-1)?.outcome === 'answered') {
    return totalCharge(charges) > 0
      ? 'The answer broke off. What had come by then is charged.'
      : 'The answer broke off. Nothing is charged for it.';
  }
  return refusal ?? sentences[error] ?? 'It failed.';
}
