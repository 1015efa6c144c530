import type { Quirks } from '../../config/provider-schema.ts';

/** Parameters as a vendor spells them: without those it refuses, and under its own names. */
export function spell(
  parameters: Readonly<Record<string, unknown>>,
  { drop_params: refused = [], rename_params: names = {} }: Quirks,
): { readonly fields: Readonly<Record<string, unknown>>; readonly dropped: readonly string[] } {
  const fields: [string, unknown][] = [];
  const dropped: string[] = [];
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null) continue;
    if (refused.includes(name)) dropped.push(name);
    // A client may call its own field `constructor`, which every object has without our doing.
    else fields.push([Object.hasOwn(names, name) ? (names[name] ?? name) : name, value]);
  }
  return { fields: Object.fromEntries(fields), dropped };
}
