import { type ConfigKind, configKinds, isKindName } from '../config/kinds.ts';
import type { ConfigProblem } from '../config/problems.ts';
import { invalidRequest } from '../core/errors.ts';
import type { ObjectId, StoredObject } from './config-store.ts';

// Objects that take effect at a time, such as prices.

/** All processes have read a change after this time, so that they apply it at the same moment. */
const startDelayMs = 2_000;

/** Returns the next full second at which every process has read a change. */
export function soonestStart(now: number): string {
  const seconds = Math.ceil((now + startDelayMs) / 1000) + 1;
  return new Date(seconds * 1000).toISOString().replace('.000Z', 'Z');
}

function kindOf({ kind }: ObjectId): ConfigKind | undefined {
  return isKindName(kind) ? configKinds[kind] : undefined;
}

const startOf = (id: ObjectId) => kindOf(id)?.lockedFrom?.(id.name);

/** Returns whether the start of an object that takes effect at a time has passed. */
export function isInEffect(id: ObjectId, now: number): boolean {
  const from = startOf(id);
  return from !== undefined && from <= now;
}

/**
 * Rejects a change of an object in effect, because receipts refer to it, and of one that starts
 * before all processes have read the change. Throws 409.
 */
export function requireNotStarted(id: ObjectId, now: number): void {
  const from = startOf(id);
  if (from === undefined || from >= now + startDelayMs) return;
  const state = isInEffect(id, now) ? 'has taken effect' : 'is about to take effect';
  const subject = `The ${kindOf(id)?.noun} "${id.name}"`;
  const message = `${subject} ${state}. Add another one with a later time.`;
  throw invalidRequest(message, undefined, 409);
}

/** Rejects an object that would take effect before all processes have read it. Throws 400. */
export function requireFutureStart(id: ObjectId, now: number): void {
  const from = startOf(id);
  if (from === undefined || from >= now + startDelayMs) return;
  const seconds = startDelayMs / 1000;
  const message = `from must be at least ${seconds} seconds ahead, so that all processes know it.`;
  throw invalidRequest(message, 'from');
}

const subjectFields: ReadonlySet<string> = new Set(['model', 'provider']);

/** Returns the objects in effect whose model, or whose provider of a model, doesn't exist. */
export function obsoleteObjects(
  objects: readonly StoredObject[],
  problems: readonly ConfigProblem[],
  now: number,
): readonly StoredObject[] {
  const isSubject = ({ path }: ConfigProblem) => subjectFields.has(path);
  const isOf = (id: ObjectId, { object }: ConfigProblem) =>
    object?.kind === id.kind && object.name === id.name;
  return objects.filter(
    (id) =>
      isInEffect(id, now) && problems.some((problem) => isSubject(problem) && isOf(id, problem)),
  );
}
