import type { Receipt } from '../shapes.ts';

/** The symbols of docs/errors.md, for somebody who never read it. */
const sentences: Readonly<Record<string, string>> = {
  invalid_request_error: 'The request itself was refused: repeating it does not help.',
  insufficient_credits: 'There were not enough credits for it.',
  forbidden: 'Its key may not do this.',
  model_capability_mismatch: 'The model cannot do what was asked of it.',
  rate_limit_exceeded: 'There were too many requests at that time.',
  upstream_error: 'No provider gave a usable answer.',
  service_unavailable: 'Nobody was there to answer it at that time.',
  internal_error: 'Something broke in the gateway.',
};

/** Why a request failed: in a sentence, and in the words of who refused it last. */
export function Failure({ receipt }: { readonly receipt: Receipt }) {
  const { error, attempts } = receipt;
  if (error === null) return null;
  const last = attempts.findLast(({ message }) => message !== null);
  return (
    <div class="note bad">
      <p>
        <b>{sentences[error] ?? 'It failed.'}</b>
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
