import { serverWords } from '../ask/account/server-words.ts';
import type { MediaTarget } from '../dialect.ts';

/** Parameters as a vendor spells them: under its own names, and without those not meant for it. */
export function spell(
  parameters: Readonly<Record<string, unknown>>,
  { quirks, isOwnAccount = false }: MediaTarget,
): { readonly fields: Readonly<Record<string, unknown>>; readonly dropped: readonly string[] } {
  const { drop_params: refused = [], rename_params: names = {} } = quirks;
  const fields: [string, unknown][] = [];
  const dropped: string[] = [];
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null) continue;
    const isForServers = !isOwnAccount && serverWords.has(name);
    if (isForServers || refused.includes(name)) dropped.push(name);
    // Not `names[name]` alone: a client's own field may be called `constructor`, which every object
    // has.
    else fields.push([Object.hasOwn(names, name) ? (names[name] ?? name) : name, value]);
  }
  return { fields: Object.fromEntries(fields), dropped };
}
