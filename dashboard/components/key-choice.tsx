import { requestData } from '../api.ts';
import { useLoad } from '../load.ts';
import { useSession } from '../session.ts';
import type { Key } from '../shapes.ts';
import { CommittedTextField, SelectField } from './field.tsx';

/** How long the components of a page share one list of keys. */
const cacheMs = 5_000;
let cachedKeys:
  | { readonly key: string; readonly at: number; readonly keys: Promise<Key[]> }
  | undefined;

function fetchCachedKeys(key: string): Promise<Key[]> {
  if (cachedKeys?.key !== key || performance.now() - cachedKeys.at > cacheMs) {
    cachedKeys = { key, at: performance.now(), keys: fetchAllKeys(key) };
  }
  return cachedKeys.keys;
}

export const keysPerPage = 100;
/** With more keys than this, a text field for the key ID replaces the list. */
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

/** Returns the names of the tenant's keys by ID. Only a management key can list other keys. */
export function useKeyNames(): ReadonlyMap<string, string> {
  const { key, kind, keyObject } = useSession();
  const own = keyObject ? [keyObject] : [];
  const { data = own } = useLoad('keys', async () =>
    kind === 'management' ? fetchCachedKeys(key) : own,
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
  const { kind, keyObject } = useSession();
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
      label="Key ID"
      placeholder="All keys"
      value={value}
      onValue={onValue}
      suggestions={kind === 'routing' && keyObject ? [keyObject.id] : [...names.keys()]}
    />
  );
}
