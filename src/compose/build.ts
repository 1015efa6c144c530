import { firstStart, type GeneratedSecrets } from '../auth/first-start.ts';
import type { Config, Model } from '../config/config.ts';
import { planReload, type ReloadResult } from '../config/reload.ts';
import { version } from '../config/version.ts';
import type { AuditedChange } from '../control/config-store.ts';
import { changeOfFile } from '../control/file-changes.ts';
import { runPeriodically } from '../core/periodic-task.ts';
import { HttpServer } from '../http/server.ts';
import { StartupServer } from '../http/startup-server.ts';
import { chatModelOf } from '../route/capability.ts';
import { toOutageError } from '../store/errors.ts';
import { openStore, type Store, waitForStore } from '../store/open.ts';
import type { Log } from '../telemetry/log.ts';
import { configure } from './configure.ts';
import { openServices, type SharedServices, type WorkerSlot } from './shared-services.ts';

/** A gateway that is ready to listen. */
export interface Tollgate {
  readonly firstSecrets: GeneratedSecrets | undefined;
  readonly models: readonly Model[];
  /** A chat model to suggest for the first request, if there is one. */
  readonly chatModel: Model | undefined;
  readonly engine: string;
  /** Starts listening, optionally on a port shared with other processes. Returns the port. */
  listen(sharesPort?: boolean): number;
  /** Applies a new configuration to later requests. Changes nothing if it throws. */
  reload(newConfig: Config): ReloadResult & Reloaded;
  /** Writes a reload to the audit log. */
  record(change: AuditedChange): Promise<void>;
  /** Waits for running requests, writes everything to the store, and closes. */
  drain(seconds: number): Promise<void>;
}

interface Reloaded {
  readonly models: number;
  readonly change: AuditedChange;
}

export interface WorkerContext extends WorkerSlot {
  /** True if other processes already serve this port, so this one needs no startup page. */
  readonly isJoining: boolean;
  /** Resolves when the process must stop, which ends the wait for the database. */
  readonly stopped: Promise<void>;
}

/**
 * Builds the gateway once its database is reachable. Returns undefined if the process is stopped
 * first.
 */
export async function buildWhenReachable(
  config: Config,
  log: Log,
  context: WorkerContext,
): Promise<Tollgate | undefined> {
  const { worker, isJoining, stopped } = context;
  const startupServer = new StartupServer(version);
  const { host, port } = config.server;
  const wait = (reason: string) => startupServer.listen(host, port, worker !== null, reason);
  const store = await waitForStore(config, log, stopped, isJoining ? undefined : { wait });
  if (store) return assemble(config, store, log, context, startupServer);
  await startupServer.close();
  return undefined;
}

export async function build(config: Config, log: Log, workerCount = 1): Promise<Tollgate> {
  const store = await openStore(config.database.reveal());
  return assemble(config, store, log, { worker: null, workerCount }, new StartupServer(version));
}

/** Composes the services by hand. Only the files of compose/ may import from every folder. */
async function assemble(
  config: Config,
  store: Store,
  log: Log,
  slot: WorkerSlot,
  startupServer: StartupServer,
): Promise<Tollgate> {
  const services = await openServices(config, store, log, slot);
  // Do this after everything that can fail, because the secrets created here are shown only once.
  const firstSecrets = await firstStart(config.bootstrap, {
    directory: store.directory,
    grantOnce: (tenantId, credits) => grantOnce(store, tenantId, credits),
    now: Date.now(),
  });
  // Do this before anything is cached, because the first check clears all caches.
  await services.changes.check();
  const { authenticator, accounting, live, retention, telemetry } = services;
  const isDraining = () => server.draining;
  let configured = configure(live.current, services, isDraining);
  const { admin, host, port } = config.server;
  const { trustedProxies } = live.current.server;
  const server: HttpServer = new HttpServer({
    routes: configured.routes,
    ...{ authenticator, log, trustedProxies, hasAdminListener: admin !== null },
    responseCounts: telemetry.responseCounts,
    countRead: ({ tenantId }) => configured.readRate.take(tenantId),
    writeRateHeaders: (caller, headers) => configured.admission.writeRateHeaders(caller, headers),
    mapError: toOutageError,
  });
  telemetry.addMetricSources(
    accounting,
    services,
    () => server.openRequests,
    () => live.state,
  );
  const periodicTasks = runPeriodically([...services.periodicTasks(), ...server.periodicTasks()]);
  let currentConfig = live.current;
  live.onChange((newConfig) => {
    const { config: next } = planReload(currentConfig, newConfig);
    configured = configure(next, services, isDraining);
    server.replaceRoutes(configured.routes, next.server.trustedProxies);
    currentConfig = next;
  });
  return {
    ...{ firstSecrets, models: configured.models, engine: store.database.engine },
    chatModel: chatModelOf(configured.models),
    listen(sharesPort = false) {
      void retention?.run();
      if (admin) server.listenForAdmin(admin.host, admin.port, sharesPort);
      services.listenPort.port = server.listen(host, port, sharesPort, startupServer);
      return services.listenPort.port;
    },
    reload(newConfig) {
      const { needRestart } = planReload(currentConfig, newConfig);
      const change = changeOfFile(live.base, newConfig);
      live.rebase(newConfig);
      return { config: currentConfig, needRestart, change, models: configured.models.length };
    },
    record: (change) => store.auditLog.append([change], Date.now()),
    async drain(seconds) {
      const abortRunning = () => {
        services.jobs.abort();
        services.deadlines.end();
      };
      await Promise.all([server.drain(seconds, abortRunning), services.jobs.stop(seconds)]);
      periodicTasks.stop();
      await closeServices(services);
    },
  };
}

async function closeServices(services: SharedServices): Promise<void> {
  const { retention, accounting, authenticator, demo, telemetry, counters, redis } = services;
  await retention?.stop();
  await Promise.all([accounting.close(), services.running.close()]);
  // Close this after accounting, because the last requests may still have answers to write.
  await services.idempotency.close();
  await authenticator.markUsed();
  await demo.stop();
  await telemetry.stop();
  await counters.shared?.slots.reportReleased();
  redis?.close();
  await services.store.database.close();
}

async function grantOnce(store: Store, tenantId: string, credits: number): Promise<void> {
  await store.creditStore.change({
    tenantId,
    amount: credits,
    note: 'First grant',
    idempotencyKey: 'first-start',
    now: Date.now(),
  });
}
