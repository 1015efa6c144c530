import type { Receipt } from '../shapes.ts';

/** Shows why a request failed, with the last error message of a provider. */
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
