import { GatewayError } from '../core/errors.ts';
import { storeAway } from './away.ts';
import { failureCode } from './database.ts';
import { openStore, type Store } from './open.ts';

/** Between two attempts: a server that comes up shall be found before somebody looks at a clock. */
const retryMs = 500;

export interface Waiting {
  /** Whoever has not come by then may be at another address. */
  readonly patienceMs: number;
  /** Called after every attempt, with one sentence. */
  onAway(why: string): void;
  /** Ends the waiting. */
  readonly stopped: Promise<void>;
}

/**
 * The store, as soon as its server answers; undefined when the wait was stopped. Rejects when it
 * was in vain, and at once when the server answers and cannot be used: no waiting mends that.
 */
export async function openWhenReachable(
  url: string,
  { patienceMs, onAway, stopped }: Waiting,
): Promise<Store | undefined> {
  if (url.startsWith('sqlite:')) return openStore(url);
  const orStopped = stoppable(stopped);
  const until = performance.now() + patienceMs;
  for (;;) {
    try {
      // Steps of the schema are never left in the middle: only the way to the server is.
      if (await orStopped(reach(url))) return undefined;
      return await openStore(url);
    } catch (thrown) {
      if (!mayCome(thrown) || performance.now() >= until) throw thrown;
      onAway(thrown.message);
    }
    if (await orStopped(Bun.sleep(retryMs))) return undefined;
  }
}

/**
 * Waits for one turn after the other, or for the stop: then true. A race with the stop itself would
 * leave something behind at it in every turn, and a server may be away for days.
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

/** Nobody answers there yet, or says that it is too early. */
function mayCome(thrown: unknown): thrown is GatewayError {
  if (!(thrown instanceof GatewayError)) return false;
  const isSocketMissing = failureCode(thrown.cause) === 'ENOENT';
  return isSocketMissing || storeAway(thrown.cause) !== undefined;
}
