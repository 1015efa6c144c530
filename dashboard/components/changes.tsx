import type { Difference } from '../json-diff.ts';

interface ChangesProps {
  readonly label: string;
  readonly changes: readonly Difference[];
}

/** Lists fields with their values before and after a change. */
export function Changes({ label, changes }: ChangesProps) {
  if (changes.length === 0) return null;
  return (
    <ul class="changes" aria-label={label}>
      {changes.map((change) => (
        <ChangedField key={change.path} {...change} />
      ))}
    </ul>
  );
}

function ChangedField({ path, before, after }: Difference) {
  return (
    <li>
      <code>{path || 'value'}</code>
      {before !== undefined && (
        <del>
          <span class="visually-hidden">Before: </span>
          <code>{before}</code>
        </del>
      )}
      {after !== undefined && (
        <ins>
          <span class="visually-hidden">After: </span>
          <code>{after}</code>
        </ins>
      )}
    </li>
  );
}
