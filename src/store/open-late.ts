import { GatewayError } from '../core/errors.ts';
import { failureCode } from '../core/failure-code.ts';
import { isRefusal, storeAway } from './away.ts';
import { openStore, type Store } from './open.ts';

/** Between two attempts; short, so that a server that has just come up is found at once. */
const retryMs = 500;
/** Service managers take a process for dead that has been silent for a few times this long. */
const silenceMs = 5_000;
/** A file that stays locked is being migrated elsewhere: one step of that may take this long. */
const lockedMs = 600_000;
const renewing = 'Its tables are being brought up to date.';

interface Waiting {
  /** After this long the address is more likely wrong than the server slow. */
  readonly patienceMs: number;
  /** Called after every attempt, and again and again while one takes long, with one sentence. */
  onAway(why: string): void;
  /** Ends the waiting. */
  readonly stopped: Promise<void>;
}

/**
 * The store, as soon as its server answers or its file is free; undefined when the wait was
 * stopped. Rejects when the wait is over, and at once when the store is there and cannot be used.
 */
export async function openWhenReachable(
  url: string,
  { patienceMs, onAway, stopped }: Waiting,
): Promise<Store | undefined> {
  const isFile = url.startsWith('sqlite:');
  const mayHelp = isFile ? isLocked : mayCome;
  const orStopped = stoppable(stopped);
  const until = performance.now() + (isFile ? lockedMs : patienceMs);
  for (;;) {
    try {
      // Only the wait for the server can be stopped; migrations always run to their end.
      if (!isFile && (await orStopped(reach(url)))) return undefined;
      return await openAloud(url, onAway);
    } catch (thrown) {
      if (!mayHelp(thrown) || performance.now() >= until) throw thrown;
      onAway(thrown.message);
    }
    if (await orStopped(Bun.sleep(retryMs))) return undefined;
  }
}

/**
 * A new index over a large log takes minutes, here or in the process that has the lock. Where
 * `tell` throws, because somebody else has our port, the end is not waited for.
 */
async function openAloud(url: string, tell: (why: string) => void): Promise<Store> {
  const untold = Promise.withResolvers<never>();
  const timer = setInterval(() => {
    try {
      tell(renewing);
    } catch (thrown) {
      untold.reject(thrown);
    }
  }, silenceMs);
  try {
    return await Promise.race([openStore(url), untold.promise]);
  } finally {
    clearInterval(timer);
  }
}

/**
 * Waits for one turn after the other: false when the turn ended, true when the wait was stopped.
 * Promise.race would add a handler to `stopped` in every turn, and a server may be away for days.
 */
function stoppable(stopped: Promise<void>): (turn: Promise<void>) => Promise<boolean> {
  let isStopped = false;
  let stop = () => {};
  const onStop = () => {
    isStopped = true;
    stop();
  };
  stopped.then(onStop, onStop);
  return (turn) => {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    stop = () => resolve(true);
    turn.then(() => resolve(false), reject);
    if (isStopped) stop();
    return promise;
  };
}

async function reach(url: string): Promise<void> {
  const { openPostgres } = await import('./postgres/postgres.ts');
  await (await openPostgres(url)).close();
}

/** Whether waiting may help: nobody answers yet, or the server says that it is starting. */
function mayCome(thrown: unknown): thrown is GatewayError {
  if (!(thrown instanceof GatewayError) || isRefusal(thrown.cause)) return false;
  const isSocketMissing = failureCode(thrown.cause) === 'ENOENT';
  return isSocketMissing || storeAway(thrown.cause) !== undefined;
}

/** Locked by a change, or by a repair after a crash, for longer than SQLite itself waits. */
function isLocked(thrown: unknown): thrown is GatewayError {
  const code = thrown instanceof GatewayError ? failureCode(thrown.cause) : undefined;
  return code?.startsWith('SQLITE_BUSY') ?? false;
}
