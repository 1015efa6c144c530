import type { JsonObject } from '../../src/core/json.ts';
import { Ago } from '../components/ago.tsx';
import { Changes } from '../components/changes.tsx';
import { combined, differences } from '../json-diff.ts';
import type { Ownership } from '../shapes.ts';

interface ConflictProps {
  /** The document that the form started with. */
  readonly base: JsonObject;
  readonly mine: JsonObject;
  /** Null if it was deleted. */
  readonly theirs: (Ownership & { readonly document: JsonObject }) | null;
  readonly onKeepMine: () => void;
  /** Continues with both changes, unless they concern the same field. */
  readonly onCombine?: (document: JsonObject) => void;
  readonly onDiscard: () => void;
}

/** Shows what two editors have changed. Nothing that was typed is lost until the user decides. */
export function Conflict(props: ConflictProps) {
  const { base, mine, theirs, onKeepMine, onCombine, onDiscard } = props;
  const theirDocument = theirs?.document ?? {};
  const both = theirs && onCombine ? combined(base, mine, theirDocument) : undefined;
  const lists = [
    ['Their changes', theirs ? differences(base, theirDocument) : []],
    ['Your changes', differences(base, mine)],
  ] as const;
  return (
    <section class="fields" role="alert" aria-label="Conflict">
      <p>
        {theirs ? (
          <>
            <b>{theirs.updated_by}</b> has changed this <Ago iso={theirs.updated_at} />, after you
            opened it. Your version is not saved yet.
          </>
        ) : (
          'Someone has deleted this since you opened it. Your version is not saved yet.'
        )}
      </p>
      {lists.map(
        ([title, changes]) =>
          changes.length > 0 && (
            <div key={title}>
              <h3>{title}</h3>
              <Changes label={title} changes={changes} />
            </div>
          ),
      )}
      <div class="buttons">
        {both && (
          <button type="button" class="primary" onClick={() => onCombine?.(both)}>
            Add my changes to theirs
          </button>
        )}
        <button type="button" class="secondary" onClick={onKeepMine}>
          {theirs ? 'Save mine instead' : 'Create it again'}
        </button>
        <button type="button" class="secondary" onClick={onDiscard}>
          Discard mine
        </button>
      </div>
    </section>
  );
}
