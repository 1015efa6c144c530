import { ask } from '../api.ts';
import { useLoad } from '../load.ts';
import { useSession } from '../session.ts';
import type { Key } from '../shapes.ts';
import { SelectField, TextField } from './field.tsx';

/** Several parts of a page need the names at once; they share one answer for this long. */
const freshMs = 5_000;
let shared:
  | { readonly key: string; readonly at: number; readonly keys: Promise<Key[]> }
  | undefined;

function askOnce(key: string): Promise<Key[]> {
  if (shared?.key !== key || performance.now() - shared.at > freshMs) {
    const path = '/api/v1/keys?include_disabled=true';
    const keys = ask<{ data: Key[] }>(path, { key }).then(({ data }) => data);
    shared = { key, at: performance.now(), keys };
  }
  return shared.keys;
}

/** The tenant's keys, by id; only a manager may know them. */
export function useKeys(): ReadonlyMap<string, Key> {
  const { key, kind } = useSession();
  const { data } = useLoad('keys', async () => (kind === 'management' ? askOnce(key) : []));
  return new Map((data ?? []).map((one) => [one.id, one]));
}

interface KeyChoiceProps {
  readonly value: string;
  readonly onValue: (id: string) => void;
}

export function KeyChoice({ value, onValue }: KeyChoiceProps) {
  const { kind, about } = useSession();
  const keys = useKeys();
  if (kind === 'management' && keys.size < 100) {
    const known = [...keys.values()].map(({ id, name, label }) => [id, name || label] as const);
    const other = value !== '' && !keys.has(value) ? ([[value, value]] as const) : [];
    return (
      <SelectField
        label="Key"
        value={value}
        onValue={onValue}
        options={[['', 'All keys'], ...known, ...other]}
      />
    );
  }
  return (
    <TextField
      label="Key id"
      placeholder="All keys"
      value={value}
      onValue={onValue}
      suggestions={about ? [about.id] : [...keys.keys()]}
    />
  );
}
