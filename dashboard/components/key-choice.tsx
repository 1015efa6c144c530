import { requestData } from '../api.ts';
import { useLoad } from '../load.ts';
import { useSession } from '../session.ts';
import type { Key } from '../shapes.ts';
import { CommittedTextField, SelectField } from './field.tsx';

/** For this long, the parts of a page that need the names of keys share one answer. */
const freshMs = 5_000;
let shared:
  | { readonly key: string; readonly at: number; readonly keys: Promise<Key[]> }
  | undefined;

function fetchKeysOnce(key: string): Promise<Key[]> {
  if (shared?.key !== key || performance.now() - shared.at > freshMs) {
    shared = { key, at: performance.now(), keys: fetchAllKeys(key) };
  }
  return shared.keys;
}

export const keysPerPage = 100;
/** With more keys than this a list is no help: a key is then chosen by its id. */
const keysMax = 1_000;

async function fetchAllKeys(key: string): Promise<Key[]> {
  const keys: Key[] = [];
  for (;;) {
    const path = `/api/v1/keys?include_disabled=true&offset=${keys.length}`;
    const page = await requestData<Key[]>(path, { key });
    keys.push(...page);
    if (page.length < keysPerPage || keys.length >= keysMax) return keys;
  }
}

/** The names of the tenant's keys by id; only a management key may know other keys than itself. */
export function useKeyNames(): ReadonlyMap<string, string> {
  const { key, kind, about } = useSession();
  const own = about ? [about] : [];
  const { data = own } = useLoad('keys', async () =>
    kind === 'management' ? fetchKeysOnce(key) : own,
  );
  const byName = Map.groupBy(data, ({ name }) => name);
  return new Map(
    data.map(({ id, name, label }) => {
      if (name === '') return [id, label];
      return [id, (byName.get(name)?.length ?? 0) > 1 ? `${name} (${label})` : name];
    }),
  );
}

interface KeyChoiceProps {
  readonly value: string;
  readonly onValue: (id: string) => void;
}

export function KeyChoice({ value, onValue }: KeyChoiceProps) {
  const { kind, about } = useSession();
  const names = useKeyNames();
  if (kind === 'management' && names.size < keysMax) {
    const other = value !== '' && !names.has(value) ? ([[value, value]] as const) : [];
    return (
      <SelectField
        label="Key"
        value={value}
        onValue={onValue}
        options={[['', 'All keys'], ...names, ...other]}
      />
    );
  }
  return (
    <CommittedTextField
      label="Key id"
      placeholder="All keys"
      value={value}
      onValue={onValue}
      suggestions={kind === 'routing' && about ? [about.id] : [...names.keys()]}
    />
  );
}
