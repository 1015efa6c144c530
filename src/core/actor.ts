import { AsyncLocalStorage } from 'node:async_hooks';

/** Who makes a change, and from where, for the audit log. */
export interface Actor {
  /** A key ID, `admin`, a user of the machine, or `operator` for a signal. */
  readonly name: string;
  readonly origin: 'http' | 'cli' | 'signal';
  /** The client's address. Null for commands and signals. */
  readonly address: string | null;
  readonly requestId: string | null;
}

// The actor follows a request through asynchronous calls, so that the store can record it in the
// transaction of the change without a parameter in every function in between.
const actors = new AsyncLocalStorage<Actor>();

export function runAs<T>(actor: Actor, work: () => T): T {
  return actors.run(actor, work);
}

/** Returns undefined for changes that Tollgate makes itself, such as those of a first start. */
export function currentActor(): Actor | undefined {
  return actors.getStore();
}
