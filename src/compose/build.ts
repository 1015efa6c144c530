import { firstStart, type GeneratedSecrets } from '../auth/first-start.ts';
import type { Config, Model } from '../config/config.ts';
import { planReload, type ReloadResult } from '../config/reload.ts';
import { version } from '../config/version.ts';
import { runPeriodically } from '../core/periodic-task.ts';
import { HttpServer, StartupServer } from '../http/server.ts';
import { chatModelOf } from '../route/capability.ts';
import { toUnreachableError } from '../store/errors.ts';
import { openStore, type Store } from '../store/open.ts';
import { waitForStore } from '../store/wait-for-store.ts';
import type { Log } from '../telemetry/log.ts';
import { configure } from './configure.ts';
import { openServices, type WorkerSlot } from './runtime.ts';

/** A built Tollgate, not yet listening. */
export interface Tollgate {
  readonly firstSecrets: GeneratedSecrets | undefined;
  readonly models: readonly Model[];
  /** A model that can chat, suggested for the first question; undefined where there is none. */
  readonly chatModel: Model | undefined;
  readonly engine: string;
  /** Starts serving, alone on its port or with other processes; returns the port in use. */
  listen(sharesPort?: boolean): number;
  /**
   * Serves by other settings from the next request on. If it cannot, throws and changes nothing.
   */
  reload(newConfig: Config): ReloadResult & { readonly models: number };
  /** Lets running requests finish, writes everything down and closes. */
  drain(seconds: number): Promise<void>;
}

export interface WorkerContext extends WorkerSlot {
  /** Whether other processes already serve at this port and answer while this one waits. */
  readonly isJoining: boolean;
  /** Resolves when the process is told to stop, which ends the wait for the database. */
  readonly stopped: Promise<void>;
}

/** Builds Tollgate as soon as its database can be reached; undefined if stopped before that. */
export async function buildWhenReachable(
  config: Config,
  log: Log,
  context: WorkerContext,
): Promise<Tollgate | undefined> {
  const { worker, isJoining, stopped } = context;
  const startupServer = new StartupServer(version);
  const { host, port } = config.server;
  const wait = (why: string) => startupServer.listen(host, port, worker !== null, why);
  const store = await waitForStore(config, log, stopped, isJoining ? undefined : { wait });
  if (store) return assemble(config, store, log, context, startupServer);
  await startupServer.close();
  return undefined;
}

export async function build(config: Config, log: Log, workerCount = 1): Promise<Tollgate> {
  const store = await openStore(config.database.reveal());
  return assemble(config, store, log, { worker: null, workerCount }, new StartupServer(version));
}

/** Builds every part by hand. With the files of wire/ the only place that may import everything. */
async function assemble(
  config: Config,
  store: Store,
  log: Log,
  slot: WorkerSlot,
  startupServer: StartupServer,
): Promise<Tollgate> {
  const services = await openServices(config, store, log, slot);
  // After everything that may refuse the start: the secrets made here are shown only once.
  const firstSecrets = await firstStart(config.bootstrap, {
    directory: store.directory,
    grantOnce: (tenantId, credits) => grantOnce(store, tenantId, credits),
    now: Date.now(),
  });
  // Before anything is remembered: the first check makes this process forget all it has read.
  await services.changes.check();
  const { authenticator, accounting, counters, demo, health, redis, retention, telemetry } =
    services;
  const isDraining = () => server.draining;
  let configured = configure(config, services, isDraining);
  const { models } = configured;
  const server: HttpServer = new HttpServer({
    routes: configured.routes,
    authenticator,
    log,
    answers: telemetry.answers,
    writeRateHeaders: (caller, headers) => configured.admission.writeRateHeaders(caller, headers),
    explain: toUnreachableError,
  });
  telemetry.addMetricSources(accounting, health, () => server.openRequests);
  const periodicTasks = runPeriodically([...services.periodicTasks(), ...server.periodicTasks()]);
  let currentConfig = config;
  return {
    firstSecrets,
    models,
    chatModel: chatModelOf(models),
    engine: store.database.engine,
    listen(sharesPort = false) {
      void retention?.run();
      const { host, port: requestedPort } = config.server;
      services.serverAddress.port = server.listen(host, requestedPort, sharesPort, startupServer);
      return services.serverAddress.port;
    },
    reload(newConfig) {
      const { config: next, needRestart } = planReload(currentConfig, newConfig);
      configured = configure(next, services, isDraining);
      server.replaceRoutes(configured.routes);
      currentConfig = next;
      return { config: next, needRestart, models: configured.models.length };
    },
    async drain(seconds) {
      const abortRunning = () => {
        services.jobs.abort();
        services.deadlines.end();
      };
      await Promise.all([server.drain(seconds, abortRunning), services.jobs.stop(seconds)]);
      periodicTasks.stop();
      await retention?.stop();
      await accounting.close();
      // After the books: the last requests may have left an answer that is still to be written.
      await services.idempotency.close();
      await authenticator.markUsed();
      await demo.stop();
      await telemetry.stop();
      await counters.together?.slots.reportReleased();
      redis?.close();
      await store.database.close();
    },
  };
}

async function grantOnce(store: Store, tenantId: string, credits: number): Promise<void> {
  await store.creditBook.change({
    tenantId,
    amount: credits,
    note: 'First grant',
    idempotencyKey: 'first-start',
    now: Date.now(),
  });
}
