import type { Quirks } from '../config/provider-schema.ts';

/** Parameters as a vendor spells them: without those it refuses, and under its own names. */
export function spell<Value>(
  parameters: Readonly<Record<string, Value | null>>,
  { drop_params: refused = [], rename_params: names = {} }: Quirks,
): { readonly fields: Readonly<Record<string, Value>>; readonly dropped: readonly string[] } {
  const fields: Record<string, Value> = {};
  const dropped: string[] = [];
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null) continue;
    if (refused.includes(name)) dropped.push(name);
    else fields[names[name] ?? name] = value;
  }
  return { fields, dropped };
}
