import type { Receipt } from '../shapes.ts';

/** The symbols of docs/errors.md, for somebody who never read it. */
const sentences: Readonly<Record<string, string>> = {
  invalid_request_error: 'The request itself was refused: repeating it does not help.',
  insufficient_credits:
    'There were not enough credits for it: in the wallet, or within the limit of its key.',
  forbidden: 'Its key may not do this.',
  model_capability_mismatch: 'The model cannot do what was asked of it.',
  rate_limit_exceeded: 'There were too many requests at that time.',
  upstream_error: 'No provider gave a usable answer.',
  service_unavailable: 'Nobody was there to answer it at that time.',
  internal_error: 'Something broke in the gateway.',
};

function sentenceOf({ error, cost, attempts }: Receipt): string {
  if (error === 'upstream_error' && attempts.at(-1)?.outcome === 'answered') {
    return cost > 0
      ? 'The answer broke off. What had come by then is charged.'
      : 'The answer broke off. Nothing is charged for it.';
  }
  return sentences[error ?? ''] ?? 'It failed.';
}

/** Why a request failed: in a sentence, and in the words of who refused it last. */
export function Failure({ receipt }: { readonly receipt: Receipt }) {
  const { error, attempts } = receipt;
  if (error === null) return null;
  const last = attempts.findLast(({ message }) => message !== null);
  return (
    <div class="note bad">
      <p>
        <b>{sentenceOf(receipt)}</b>
      </p>
      {last && (
        <p>
          {last.provider}
          {last.status === null ? '' : ` (${last.status})`}: {last.message}
        </p>
      )}
    </div>
  );
}
