import type { Config } from '../config/config.ts';
import type { Log } from '../telemetry/log.ts';
import type { Store } from './open.ts';
import { openWhenReachable } from './open.ts';

/** How often the log repeats why the process is waiting. */
const repeatMs = 30_000;

/**
 * Opens the store as soon as it is reachable. Returns undefined if the process was stopped first.
 * Until then, the startup server answers clients if one is passed.
 */
export async function waitForStore(
  config: Config,
  log: Log,
  stopped: Promise<void>,
  startupServer: { wait(reason: string): number } | undefined,
): Promise<Store | undefined> {
  const startedAt = performance.now();
  let loggedAt: number | undefined;
  const store = await openWhenReachable(config.database.reveal(), {
    waitBudgetMs: config.server.databaseWaitSeconds * 1000,
    stopped,
    onUnreachable(reason) {
      const port = startupServer?.wait(reason);
      const now = performance.now();
      if (loggedAt !== undefined && now - loggedAt < repeatMs) return;
      loggedAt = now;
      log.error('database_unreachable', { reason: reason, port });
    },
  });
  if (store && loggedAt !== undefined) {
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    log.info('database_connected', { after_seconds: seconds });
  }
  return store;
}
