import { configKinds, type FileData, type KindName, kindNames } from '../config/kinds.ts';
import { secretsIn, valueAt, withValueAt } from '../config/secret-fields.ts';
import { settings } from '../config/settings.ts';
import { invalidRequest } from '../core/errors.ts';
import { fieldsOf, isObject, type JsonObject } from '../core/json.ts';
import { type CheckContext, requireValid } from './checks.ts';
import {
  type ConfigServiceDeps,
  changeOf,
  deletionOf,
  findObject,
  requireUnlocked,
  requireUnusedPlan,
  validDocument,
} from './config-service.ts';
import type { ConfigSnapshot, StoredObject } from './config-store.ts';
import { isInEffect, requireNotStarted } from './start-times.ts';

// Moves the configuration in the store to a file with the format of tollgate.yaml, and back.

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Returns the objects of the store as the data of a file. Without `withSecrets`, each secret is a
 * reference to an environment variable.
 */
export async function exportConfig(
  deps: ConfigServiceDeps,
  withSecrets: boolean,
): Promise<JsonObject> {
  const { objects } = await deps.store.read();
  const vault = withSecrets ? await deps.vault() : undefined;
  const variables = new Set<string>();
  const file: FileData = {};
  for (const object of objects) {
    const kind = kindNames.find((name) => name === object.kind);
    if (!kind) continue;
    const opened = vault ? vault.open(object) : undefined;
    if (opened?.problem !== undefined) {
      throw invalidRequest(`The ${kind} "${object.name}" ${opened.problem}.`);
    }
    const document = opened?.document ?? withPlaceholders(kind, object, variables);
    configKinds[kind].addTo(file, object.name, document);
  }
  return file;
}

/** Replaces each secret by a reference to a variable that isn't in `variables` yet, and adds it. */
function withPlaceholders(
  kind: KindName,
  { name, document }: StoredObject,
  variables: Set<string>,
): JsonObject {
  return secretsIn(document, configKinds[kind].secrets).reduce((filled, { path }) => {
    const words = [name, ...path.filter((segment) => segment !== 'value')].join('_');
    const first = words
      .toUpperCase()
      .replaceAll(/[^A-Z0-9]+/g, '_')
      .replace(/^(?=\d)/, '_');
    // Two names can differ only in punctuation, such as "a-b" and "a.b".
    let variable = first;
    for (let i = 2; variables.has(variable); i += 1) variable = `${first}_${i}`;
    variables.add(variable);
    return withValueAt(filled, path, `\${${variable}}`) as JsonObject;
  }, document);
}

interface ImportedObject {
  readonly kind: KindName;
  readonly name: string;
  readonly document: JsonObject;
}

/** What an import changes, or would change. */
export interface ConfigDifference {
  readonly kind: KindName;
  readonly name: string;
  readonly change: 'create' | 'update' | 'delete';
  /** The names of the top-level fields that differ. */
  readonly fields: readonly string[];
}

export interface ImportOptions {
  /** Whether objects that the file lacks are deleted. */
  readonly replace: boolean;
  /** Only returns the differences. */
  readonly dryRun: boolean;
  /** The environment variables that the file may refer to. */
  readonly variables: Variables;
}

/** Creates and replaces all objects of a file in one transaction. Throws 400, 409. */
export async function importConfig(
  deps: ConfigServiceDeps,
  data: unknown,
  { replace, dryRun, variables }: ImportOptions,
): Promise<readonly ConfigDifference[]> {
  const imported = objectsOf(data);
  const base = deps.base();
  for (const { kind, name } of imported) requireUnlocked(base, kind, name);
  const vault = await deps.vault();
  const now = deps.now();
  const plan = (current: ConfigSnapshot, sealingKey: string) =>
    planImport(imported, { base, vault, current, sealingKey, replace, variables, now });
  if (dryRun) return plan(await deps.store.read(), vault.fingerprint).differences;
  let differences: readonly ConfigDifference[] = [];
  await deps.store.change(deps.now(), vault.fingerprint, (current, sealingKey) => {
    const planned = plan(current, sealingKey);
    differences = planned.differences;
    return planned.changes;
  });
  await deps.changed();
  return differences;
}

interface Plan extends CheckContext {
  readonly sealingKey: string;
  readonly replace: boolean;
  readonly variables: Variables;
}

function planImport(imported: readonly ImportedObject[], plan: Plan) {
  const { vault, current, sealingKey, now } = plan;
  const changed = imported.flatMap(({ kind, name, document }) => {
    const stored = findObject(current, { kind, name });
    const requested = filled({ kind, name, document }, stored, plan.variables);
    const valid = validDocument(kind, name, requested);
    const saved = vault.seal(
      { kind, name, document: valid },
      { stored, omitted: 'reuse', sealingKey },
    );
    const before = stored ? vault.open(stored).document : {};
    const after = vault.open(asStored(saved)).document;
    const fields = fieldsThatDiffer(before, after);
    if (stored && fields.length === 0) return [];
    if (stored) requireNotStarted(stored, now);
    const change = stored ? ('update' as const) : ('create' as const);
    return [
      { saved, before: stored?.document ?? null, difference: { kind, name, change, fields } },
    ];
  });
  const isImported = (object: StoredObject) =>
    imported.some(({ kind, name }) => kind === object.kind && name === object.name);
  const missing = plan.replace ? current.objects.filter((object) => !isImported(object)) : [];
  for (const object of missing) requireUnusedPlan(current, object);
  const saved = changed.map((one) => one.saved);
  const others = missing.filter((object) => !isInEffect(object, now));
  const removed = [...others, ...requireValid(plan, { saved, removed: others })];
  for (const object of missing) {
    if (!removed.includes(object)) requireNotStarted(object, now);
  }
  const deletions = removed.flatMap(({ kind: stored, name }) => {
    const kind = kindNames.find((known) => known === stored);
    return kind ? [{ kind, name, change: 'delete' as const, fields: [] }] : [];
  });
  const audited = [
    ...changed.map(({ saved: { document }, before, difference: { kind, name } }) =>
      changeOf(kind, name, before, document),
    ),
    ...removed.map(deletionOf),
  ];
  return {
    differences: [...changed.map(({ difference }) => difference), ...deletions],
    changes: { saved, removed, audited },
  };
}

function asStored(object: Pick<StoredObject, 'kind' | 'name' | 'document' | 'sealed'>) {
  const times = { createdAt: 0, createdBy: '', updatedAt: 0, updatedBy: '' };
  return { ...object, ...times, version: 0 };
}

function fieldsThatDiffer(before: JsonObject, after: JsonObject): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => !Bun.deepEquals(before[name], after[name]));
}

/** Returns the objects of a file. Throws 400 for options that the store can't have. */
function objectsOf(data: unknown): readonly ImportedObject[] {
  if (!isObject(data)) throw invalidRequest('The file must be a section of options.');
  for (const [section, value] of Object.entries(data)) {
    if (kindNames.some((kind) => configKinds[kind].plural === section)) continue;
    if (settings.has(section)) continue;
    const unknown = Object.keys(fieldsOf(value)).find(
      (name) => !settings.has(`${section}.${name}`),
    );
    if (unknown === undefined && isObject(value)) continue;
    const path = unknown === undefined ? section : `${section}.${unknown}`;
    throw invalidRequest(`${path} can't be imported. Set it in the file of the gateway.`, path);
  }
  return kindNames.flatMap((kind) =>
    [...configKinds[kind].objectsIn(data)].map(([name, document]) => ({ kind, name, document })),
  );
}

const reference = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g;

/**
 * Replaces references to variables. A secret whose variable isn't set stays as it is in the store.
 */
function filled(
  { kind, name, document }: ImportedObject,
  stored: StoredObject | undefined,
  variables: Variables,
): JsonObject {
  const patterns = configKinds[kind].secrets;
  const withLabels = secretsIn(document, patterns).reduce<unknown>((result, { path, text }) => {
    const [, variable] = /^\$\{(\w+)\}$/.exec(text) ?? [];
    if (variable === undefined || variables[variable]) return result;
    const label = stored?.sealed ? valueAt(stored.document, path) : undefined;
    return typeof label === 'string' ? withValueAt(result, path, label) : result;
  }, document);
  const where = `The ${configKinds[kind].noun} "${name}"`;
  const fill = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(fill);
    if (isObject(value)) {
      return Object.fromEntries(
        Object.entries(value).map(([field, inner]) => [field, fill(inner)]),
      );
    }
    if (typeof value !== 'string') return value;
    return value.replace(reference, (_, variable: string) => {
      const text = variables[variable];
      if (text) return text;
      throw invalidRequest(
        `${where} needs the environment variable ${variable}. Set it.`,
        variable,
      );
    });
  };
  return fieldsOf(fill(withLabels));
}
