import { type ConfigKind, configKinds, type KindName } from '../config/kinds.ts';
import { invalidRequest } from '../core/errors.ts';

// Objects that take effect at a time, such as prices.

/** All processes have read a change after this time, so that they apply it at the same moment. */
export const startDelayMs = 2_000;

/** Rejects a change of an object in effect, because receipts refer to it. Throws 409. */
export function requireNotStarted(kind: KindName, name: string, now: number): void {
  const { noun, lockedFrom } = configKinds[kind] as ConfigKind;
  const from = lockedFrom?.(name);
  if (from === undefined || from > now) return;
  const message = `The ${noun} "${name}" has taken effect. Add another one with a later time.`;
  throw invalidRequest(message, undefined, 409);
}

/** Rejects an object that would take effect before all processes have read it. Throws 400. */
export function requireFutureStart(kind: KindName, name: string, now: number): void {
  const from = (configKinds[kind] as ConfigKind).lockedFrom?.(name);
  if (from === undefined || from >= now + startDelayMs) return;
  const seconds = startDelayMs / 1000;
  const message = `from must be at least ${seconds} seconds ahead, so that all processes know it.`;
  throw invalidRequest(message, 'from');
}
