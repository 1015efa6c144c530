import type { Config } from '../config/config.ts';
import { configKinds, kindNames } from '../config/kinds.ts';
import type { AuditedChange } from './config-store.ts';

/** Returns the change that a reload of the file makes. The states have the objects that differ. */
export function changeOfFile(before: Config, after: Config): AuditedChange {
  const differing = kindNames.flatMap((kind) => {
    const [old, current] = [before, after].map(({ fileObjects }) => fileObjects.get(kind));
    const names = new Set([...(old?.keys() ?? []), ...(current?.keys() ?? [])]);
    return [...names].flatMap((name) => {
      const [was, is] = [old?.get(name), current?.get(name)];
      return Bun.deepEquals(was, is)
        ? []
        : [{ path: `${configKinds[kind].plural}.${name}`, was, is }];
    });
  });
  const stateOf = (state: 'was' | 'is') =>
    Object.fromEntries(
      differing.flatMap((object) => (object[state] ? [[object.path, object[state]]] : [])),
    );
  return {
    ...{ action: 'settings.reload', target: after.source, tenantId: null },
    ...{ before: stateOf('was'), after: stateOf('is') },
  };
}
