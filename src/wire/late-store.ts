import type { Config } from '../config/config.ts';
import type { Store } from '../store/open.ts';
import { openWhenReachable } from '../store/open-late.ts';
import type { Log } from '../telemetry/log.ts';

/** How often the log repeats what the process waits for. */
const repeatMs = 30_000;

/**
 * The store, as soon as it can be reached; undefined when the process was stopped before. Until
 * then the waiting room, if there is one, answers clients.
 */
export async function openLate(
  config: Config,
  log: Log,
  stopped: Promise<void>,
  room: { wait(why: string): number } | undefined,
): Promise<Store | undefined> {
  const startedAt = performance.now();
  let toldAt: number | undefined;
  const store = await openWhenReachable(config.database.reveal(), {
    patienceMs: config.server.databaseWaitSeconds * 1000,
    stopped,
    onAway(why) {
      const port = room?.wait(why);
      const now = performance.now();
      if (toldAt !== undefined && now - toldAt < repeatMs) return;
      toldAt = now;
      log.error('database_awaited', { reason: why, port });
    },
  });
  if (store && toldAt !== undefined) {
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    log.info('database_reached', { after_seconds: seconds });
  }
  return store;
}
