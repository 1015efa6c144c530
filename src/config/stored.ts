import { isObject, type JsonObject } from '../core/json.ts';
import type { Config, StoredDocument } from './config.ts';
import { configKinds, type FileData, isKindName, kindNames } from './kinds.ts';
import type { ConfigProblem } from './problems.ts';
import { maskSecrets } from './secret-fields.ts';

export interface MergedFile {
  readonly data: JsonObject;
  /** Names the stored object that a problem is in, instead of its path in the merged data. */
  attribute(problem: ConfigProblem): ConfigProblem;
}

/** Adds stored objects to the data of a file. Objects with a name that the file has are ignored. */
export function withStoredObjects(file: JsonObject, stored: readonly StoredDocument[]): MergedFile {
  const data = withOwnSections(file);
  const paths: { readonly path: string; readonly object: StoredDocument }[] = [];
  for (const kind of kindNames) {
    const { objectsIn, addTo } = configKinds[kind];
    const inFile = objectsIn(file);
    for (const object of stored) {
      if (object.kind !== kind || inFile.has(object.name)) continue;
      paths.push({ path: addTo(data, object.name, object.document), object });
    }
  }
  return {
    data,
    attribute(problem) {
      // The name of a provider may be the start of another's.
      const [found] = paths
        .filter(({ path }) => isWithin(problem.path, path))
        .sort((a, b) => b.path.length - a.path.length);
      return found
        ? problemIn(found.object, problem.path.slice(found.path.length), problem)
        : problem;
    },
  };
}

/** Thousands of objects are added, so the sections are copied only once. */
function withOwnSections(file: JsonObject): FileData {
  const sections = Object.entries(file).map(([name, section]) => {
    if (Array.isArray(section)) return [name, [...section]];
    return [name, isObject(section) ? { ...section } : section];
  });
  return Object.fromEntries(sections);
}

/** Returns the problem of a stored object, whose path is in its own document. */
function problemIn(
  { kind, name }: StoredDocument,
  rest: string,
  problem: ConfigProblem,
): ConfigProblem {
  const path = kind === 'setting' ? `value${rest}` : rest.replace(/^\./, '');
  const noun = isKindName(kind) ? configKinds[kind].noun : kind;
  return { ...problem, path, origin: `the ${noun} "${name}" in the store`, object: { kind, name } };
}

/** Returns the problems of stored objects whose secrets can't be decrypted. */
export function undecryptableObjects(stored: readonly StoredDocument[]): ConfigProblem[] {
  return stored.flatMap((object) =>
    object.problem === undefined
      ? []
      : [problemIn(object, '', { path: '', message: object.problem })],
  );
}

/** Returns whether a path is this one or inside of it. */
export function isWithin(path: string, parent: string): boolean {
  return path === parent || path.startsWith(`${parent}.`) || path.startsWith(`${parent}[`);
}

/** Returns the objects in the data of a file, with labels in place of their secrets. */
export function objectsOfFile(file: JsonObject): Config['fileObjects'] {
  return new Map(
    kindNames.map((kind) => {
      const { objectsIn, secrets } = configKinds[kind];
      const objects = [...objectsIn(file)].map(
        ([name, document]) => [name, maskSecrets(document, secrets)] as const,
      );
      return [kind, new Map(objects)] as const;
    }),
  );
}
