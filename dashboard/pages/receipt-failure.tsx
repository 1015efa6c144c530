import type { Attempt, Receipt } from '../shapes.ts';

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
          {notesOf(last)}: {last.message}
        </p>
      )}
    </div>
  );
}

/** Returns whose key was used, if it was the tenant's, and the status. */
function notesOf({ own_account: isOwn, status }: Attempt): string {
  const notes = [...(isOwn ? ['BYOK'] : []), ...(status === null ? [] : [status])];
  return notes.length === 0 ? '' : ` (${notes.join(', ')})`;
}
