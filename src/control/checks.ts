import type { Config, StoredDocument } from '../config/config.ts';
import { type ConfigProblem, ConfigProblems } from '../config/problems.ts';
import { invalidRequest } from '../core/errors.ts';
import type {
  ConfigChanges,
  ConfigSnapshot,
  NewObject,
  ObjectId,
  StoredObject,
} from './config-store.ts';
import type { ConfigVault } from './config-vault.ts';
import { obsoleteObjects } from './start-times.ts';

// Checks a change together with the rest of the configuration.

export interface CheckContext {
  readonly base: Config;
  readonly vault: ConfigVault;
  readonly current: ConfigSnapshot;
  readonly now: number;
}

/**
 * Rejects a change that would make the configuration invalid. Returns the prices in effect whose
 * model it removes, or whose provider of a model, so that they have to be deleted, too. Throws 400.
 */
export function requireValid(
  context: CheckContext,
  { saved, removed }: Pick<ConfigChanges, 'saved' | 'removed'>,
): readonly StoredObject[] {
  const { objects } = context.current;
  const isSame = (a: ObjectId | undefined, b: ObjectId) => a?.kind === b.kind && a.name === b.name;
  const isChanged = (object: ObjectId) =>
    [...saved, ...removed].some((changed) => isSame(changed, object));
  const others = objects.filter((object) => !isChanged(object));
  const { problems, obsolete } = effectOf(context, [...others, ...saved.map(asStored)], 'used');
  if (problems.length === 0) return obsolete;
  const [only, ...more] = saved;
  const isOwn = ({ object }: ConfigProblem) =>
    object !== undefined && more.length === 0 && isSame(only, object);
  const [first = problems[0]] = problems.filter(isOwn);
  const sentences = problems.map((problem) => sentenceOf(problem, isOwn(problem)));
  throw invalidRequest(sentences.join(' '), first?.path || undefined);
}

function asStored(object: NewObject): StoredObject {
  const times = { createdAt: 0, createdBy: '', updatedAt: 0, updatedBy: '' };
  return { ...object, ...times, version: 0 };
}

/** Returns the problems that a change adds, and the objects that it leaves without their model. */
export function effectOf(
  { base, vault, current, now }: CheckContext,
  after: readonly StoredObject[],
  checks: 'all' | 'used',
) {
  const problems = newProblems(base, vault, current, after, checks);
  const unchanged = current.objects.filter((object) => after.includes(object));
  const obsolete = obsoleteObjects(unchanged, problems, now);
  if (obsolete.length === 0) return { problems, obsolete };
  const rest = after.filter((object) => !obsolete.includes(object));
  return { problems: newProblems(base, vault, current, rest, checks), obsolete };
}

/**
 * Returns the problems that a change adds. Problems that exist already don't keep an operator from
 * solving them one by one.
 */
function newProblems(
  base: Config,
  vault: ConfigVault,
  before: ConfigSnapshot,
  after: readonly StoredObject[],
  checks: 'all' | 'used',
): readonly ConfigProblem[] {
  const problems = problemsWith(base, opened(vault, after), checks);
  if (problems.length === 0) return problems;
  const known = problemsWith(base, opened(vault, before.objects), checks).map(keyOf);
  return problems.filter((problem) => !known.includes(keyOf(problem)));
}

const keyOf = ({ origin, path, message }: ConfigProblem) => JSON.stringify([origin, path, message]);

const opened = (vault: ConfigVault, objects: readonly StoredObject[]) =>
  objects.map((object) => vault.open(object));

function problemsWith(
  base: Config,
  stored: readonly StoredDocument[],
  checks: 'all' | 'used',
): readonly ConfigProblem[] {
  try {
    base.withStored(stored, checks);
    return [];
  } catch (error) {
    if (error instanceof ConfigProblems) return error.problems;
    throw error;
  }
}

export function sentenceOf({ origin, path, message }: ConfigProblem, isOwn: boolean): string {
  const where = isOwn || origin === undefined ? '' : `${capitalized(origin)}: `;
  const text = path === '' ? message : `${path} ${message}`;
  return `${where}${text}${/[.?]$/.test(text) ? '' : '.'}`;
}

const capitalized = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** Returns the problems that the configuration already has. */
export function currentProblems({ base, vault, current }: CheckContext): readonly ConfigProblem[] {
  return problemsWith(base, opened(vault, current.objects), 'all');
}
