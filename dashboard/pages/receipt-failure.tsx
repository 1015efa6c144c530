import type { Receipt } from '../shapes.ts';

/** Why a request failed: a sentence, and the message of the last provider that refused it. */
export function Failure({ receipt }: { readonly receipt: Receipt }) {
  const { failure, attempts } = receipt;
  if (failure === null) return null;
  const last = attempts.findLast(({ message }) => message !== null);
  return (
    <div class="note bad">
      <p>
        <b>{failure}</b>
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
