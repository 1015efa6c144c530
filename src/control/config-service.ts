import { Compile } from 'typebox/schema';
import type { Config } from '../config/config.ts';
import { type ConfigKind, configKinds, type KindName } from '../config/kinds.ts';
import type { ConfigProblem } from '../config/problems.ts';
import { type GatewayError, invalidRequest, notFound } from '../core/errors.ts';
import { isObject, type JsonObject } from '../core/json.ts';
import { validationError } from '../core/schema.ts';
import { didYouMean, pluralize } from '../core/text.ts';
import { currentProblems, effectOf, requireValid, sentenceOf } from './checks.ts';
import type {
  AuditedChange,
  ConfigSnapshot,
  ConfigStore,
  ObjectId,
  StoredObject,
} from './config-store.ts';
import type { ConfigVault, OmittedSecrets } from './config-vault.ts';
import { obsoleteObjects, requireFutureStart, requireNotStarted } from './start-times.ts';

/** An object of the configuration as operators see it, whoever owns it. */
export interface ConfigObject {
  readonly name: string;
  /** Only objects of the store can be changed. One that has the name of a built-in replaces it. */
  readonly owner: 'built_in' | 'file' | 'store';
  /** With labels in place of secrets. */
  readonly document: JsonObject;
  /** Null unless the store owns the object. */
  readonly stored: StoredObject | null;
}

export interface ConfigServiceDeps {
  readonly store: ConfigStore;
  vault(): ConfigVault | Promise<ConfigVault>;
  /** Returns the configuration without the objects of the store. */
  base(): Config;
  now(): number;
  /** Called after a change, so that this process uses it before its next poll. */
  changed(): Promise<unknown>;
}

/** What a request requires of the object that it changes. */
export interface Precondition {
  /** The versions of which one has to be current, `any` for an object that has to exist. */
  readonly match?: readonly number[] | 'any';
  /** True if the object must not exist yet. */
  readonly isNew?: boolean;
}

/** Returns the document that replaces the current one, which is undefined for a new object. */
type Edit = (current: JsonObject | undefined, stored: StoredObject | undefined) => unknown;

export async function listObjects(
  deps: ConfigServiceDeps,
  kind: KindName,
): Promise<readonly ConfigObject[]> {
  const { objects } = await deps.store.read();
  const stored = objects.filter((object) => object.kind === kind);
  return [...ownedObjects(deps.base(), kind, stored).values()].sort((a, b) =>
    a.name < b.name ? -1 : 1,
  );
}

/** Throws 404. */
export async function showObject(
  deps: ConfigServiceDeps,
  kind: KindName,
  name: string,
): Promise<ConfigObject> {
  const { objects } = await deps.store.read();
  const owned = ownedObjects(
    deps.base(),
    kind,
    objects.filter((one) => one.kind === kind),
  );
  const found = owned.get(name);
  if (found) return found;
  throw unknownObject(kind, name, owned.keys());
}

interface KnownId {
  readonly kind: KindName;
  readonly name: string;
}

interface ChangedObject {
  readonly object: ConfigObject;
  /** True if the store had no object with this name. */
  readonly isNew: boolean;
}

/** Creates an object or replaces its document. Throws 400, 409, 412. */
export async function putObject(
  deps: ConfigServiceDeps,
  id: KnownId,
  body: unknown,
  precondition: Precondition = {},
): Promise<ChangedObject> {
  return editObject(deps, id, () => body, precondition, { omitted: 'reuse' });
}

/** Changes some fields of an object of the store, or of a copy of a built-in one. */
export async function patchObject(
  deps: ConfigServiceDeps,
  id: KnownId,
  body: unknown,
  precondition: Precondition = {},
): Promise<ChangedObject> {
  const { kind, name } = id;
  return editObject(
    deps,
    id,
    (current) => {
      const document = current ?? ownedObjects(deps.base(), kind, []).get(name)?.document;
      if (!document) throw unknownObject(kind, name, []);
      return isObject(body) ? withPatch(document, body, configKinds[kind].schemaOf(name)) : body;
    },
    precondition,
    // The document to change has labels in place of the secrets to reuse.
    { omitted: 'remove' },
  );
}

/**
 * Deletes an object of the store, and the prices in effect that were for it. A built-in object of
 * the same name applies again.
 */
export async function deleteObject(
  deps: ConfigServiceDeps,
  { kind, name }: KnownId,
  precondition: Precondition = {},
): Promise<void> {
  const base = deps.base();
  requireUnlocked(base, kind, name);
  const vault = await deps.vault();
  await deps.store.change(deps.now(), vault.fingerprint, (current) => {
    const stored = findObject(current, { kind, name });
    if (!stored) {
      const isBuiltIn = configKinds[kind].builtIn(base).has(name);
      if (!isBuiltIn) throw unknownObject(kind, name, namesOf(current, kind));
      throw builtInObject(kind, name);
    }
    requireMatch(precondition, { kind, name }, stored);
    const now = deps.now();
    const context = { base, vault, current, now };
    const isObsolete = obsoleteObjects([stored], currentProblems(context), now).length > 0;
    if (!isObsolete) requireNotStarted(stored, now);
    requireUnusedPlan(current, stored);
    const rest = current.objects.filter((object) => object !== stored);
    const { problems, obsolete } = effectOf(context, rest, 'all');
    if (problems.length > 0) throw inUse(kind, name, problems);
    const removed = [stored, ...obsolete];
    return { saved: [], removed, audited: removed.map(deletionOf) };
  });
  await deps.changed();
}

interface EditOptions {
  readonly omitted: OmittedSecrets;
  /** The action in the audit log. By default, `<kind>.create` or `<kind>.update`. */
  readonly action?: string;
}

/** Creates or changes an object. Throws 400, 409, 412. */
export async function editObject(
  deps: ConfigServiceDeps,
  id: KnownId,
  edit: Edit,
  precondition: Precondition,
  { omitted, action }: EditOptions,
): Promise<ChangedObject> {
  const { kind, name } = id;
  const base = deps.base();
  requireUnlocked(base, kind, name);
  const vault = await deps.vault();
  let isNew = false;
  const plan = (current: ConfigSnapshot, sealingKey: string) => {
    const stored = findObject(current, id);
    isNew = stored === undefined;
    requireMatch(precondition, id, stored);
    const document = validDocument(kind, name, edit(stored?.document, stored));
    if (stored) requireNotStarted(stored, deps.now());
    else requireFutureStart(id, deps.now());
    const saved = vault.seal({ ...id, document }, { stored, omitted, sealingKey });
    const context = { base, vault, current, now: deps.now() };
    const removed = requireValid(context, { saved: [saved], removed: [] });
    const change = changeOf(kind, name, stored?.document ?? null, saved.document);
    const own = action === undefined ? change : { ...change, action };
    return { saved: [saved], removed, audited: [own, ...removed.map(deletionOf)] };
  };
  const changed = await deps.store.change(deps.now(), vault.fingerprint, plan);
  await deps.changed();
  const stored = findObject(changed, id) ?? null;
  return { isNew, object: { name, owner: 'store', document: stored?.document ?? {}, stored } };
}

/** Checks a document alone. Throws 400, 404. */
export function validDocument(kind: KindName, name: string, body: unknown): JsonObject {
  const { complete, problemOf, ...rest } = configKinds[kind] as ConfigKind;
  const schema = rest.schemaOf(name);
  if (!schema) {
    throw kind === 'setting'
      ? notFound(rest.nameProblem(name))
      : invalidRequest(rest.nameProblem(name), 'name');
  }
  const document = isObject(body) ? complete(name, body) : body;
  if (!Compile(schema).Check(document)) throw validationError(schema, document);
  if (!isObject(document)) throw invalidRequest('The request body must be a JSON object.');
  if (typeof document.id === 'string' && document.id !== name) {
    throw invalidRequest(`id must be "${name}", as in the path, or be left out.`, 'id');
  }
  const problem = problemOf?.(name, document);
  if (problem) throw invalidRequest(`${problem.path} ${problem.message}.`, problem.path);
  return document;
}

interface Branches {
  readonly properties?: Readonly<Record<string, Branches>>;
  readonly anyOf?: readonly Branches[];
  readonly type?: string;
}

/** Applies a JSON merge patch (RFC 7396), except that null is stored where the schema allows it. */
function withPatch(document: JsonObject, patch: JsonObject, schema: Branches = {}): JsonObject {
  // A map, because an assignment to `__proto__` would add fields that no check sees.
  const result = new Map(Object.entries(document));
  for (const [field, value] of Object.entries(patch)) {
    const before = result.get(field);
    const rule = schema.properties?.[field];
    const branches = rule?.anyOf ?? [];
    const isNullable = branches.some(({ type }) => type === 'null');
    const section = branches.find(({ properties }) => properties) ?? rule;
    if (isObject(before) && isObject(value)) result.set(field, withPatch(before, value, section));
    else if (value === null && !isNullable) result.delete(field);
    else result.set(field, value);
  }
  return Object.fromEntries(result);
}

/** Returns all objects of a kind. The file comes before the store, and both before the catalog. */
function ownedObjects(
  base: Config,
  kind: KindName,
  stored: readonly StoredObject[],
): ReadonlyMap<string, ConfigObject> {
  const owned = new Map<string, ConfigObject>();
  for (const [name, document] of configKinds[kind].builtIn(base)) {
    owned.set(name, { name, owner: 'built_in', document, stored: null });
  }
  for (const object of stored) {
    const { name, document } = object;
    owned.set(name, { name, owner: 'store', document, stored: object });
  }
  for (const [name, document] of base.fileObjects.get(kind) ?? []) {
    owned.set(name, { name, owner: 'file', document, stored: null });
  }
  return owned;
}

export function findObject({ objects }: ConfigSnapshot, { kind, name }: ObjectId) {
  return objects.find((object) => object.kind === kind && object.name === name);
}

const namesOf = ({ objects }: ConfigSnapshot, kind: string) =>
  objects.filter((object) => object.kind === kind).map(({ name }) => name);

function requireMatch({ match, isNew }: Precondition, id: ObjectId, stored?: StoredObject): void {
  const subject = `The ${id.kind} "${id.name}"`;
  if (isNew && stored) throw outdated(`${subject} already exists.`);
  if (match === undefined) return;
  if (!stored) throw outdated(`${subject} doesn't exist in the store.`);
  if (match === 'any' || match.includes(stored.version)) return;
  throw outdated(
    `${subject} was changed by ${stored.updatedBy} meanwhile and is now at version ` +
      `${stored.version}. Read it again, and repeat your change.`,
  );
}

function outdated(message: string): GatewayError {
  return invalidRequest(message, undefined, 412);
}

/** Rejects a change of an object that the file names. Throws 409. */
export function requireUnlocked(
  { fileObjects, source }: Config,
  kind: KindName,
  name: string,
): void {
  if (!fileObjects.get(kind)?.has(name)) return;
  const { noun } = configKinds[kind];
  const message =
    `The ${noun} "${name}" is set in ${source}. Change it there, or remove it from the file to ` +
    'manage it here.';
  throw invalidRequest(message, undefined, 409);
}

/** Rejects the removal of a plan that tenants have, who would get another price. Throws 409. */
export function requireUnusedPlan(
  { tenantsByPlan }: ConfigSnapshot,
  { kind, name }: ObjectId,
): void {
  const tenants = kind === 'plan' ? (tenantsByPlan?.get(name) ?? 0) : 0;
  if (tenants === 0) return;
  const message =
    `The plan "${name}" is the plan of ${pluralize(tenants, 'tenant')}. Give them another plan ` +
    'first.';
  throw invalidRequest(message, undefined, 409);
}

function builtInObject(kind: KindName, name: string): GatewayError {
  const { noun } = configKinds[kind];
  return invalidRequest(`The ${noun} "${name}" is built in and can't be deleted.`, undefined, 409);
}

function unknownObject(kind: KindName, name: string, known: Iterable<string>): GatewayError {
  const { noun, schemaOf, nameProblem } = configKinds[kind];
  if (kind === 'setting' && !schemaOf(name)) return notFound(nameProblem(name));
  const hint = didYouMean(name, known) || '.';
  return notFound(`There is no ${noun} "${name.slice(0, 200)}"${hint}`);
}

function inUse(kind: KindName, name: string, problems: readonly ConfigProblem[]): GatewayError {
  const { noun } = configKinds[kind];
  const users = problems.flatMap(({ object }) =>
    object ? [`${object.kind} "${object.name}"`] : [],
  );
  if (users.length === 0) {
    const sentences = problems.map((problem) => sentenceOf(problem, false)).join(' ');
    return invalidRequest(`The ${noun} "${name}" can't be deleted. ${sentences}`, undefined, 409);
  }
  const message =
    `The ${noun} "${name}" is used by ${[...new Set(users)].join(', ')}. ` +
    'Change or delete what uses it first.';
  return invalidRequest(message, undefined, 409);
}

export function changeOf(
  kind: KindName,
  name: string,
  before: JsonObject | null,
  after: JsonObject | null,
): AuditedChange {
  const verb = before === null ? 'create' : after === null ? 'delete' : 'update';
  return { action: `${kind}.${verb}`, target: name, tenantId: null, before, after };
}

export function deletionOf({ kind, name, document }: StoredObject): AuditedChange {
  return changeOf(kind as KindName, name, document, null);
}
