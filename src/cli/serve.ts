import type { WorkerContext } from '../compose/build.ts';
import type { Config, ListenAddress } from '../config/config.ts';
import { environment } from '../config/environment.ts';
import type { Flags } from '../config/load.ts';
import { everySection, loadConfig, readConfigText } from '../config/load.ts';
import { ConfigProblems } from '../config/problems.ts';
import type { ConfigText } from '../config/read-file.ts';
import { type Actor, runAs } from '../core/actor.ts';
import { failureCode, failureMessage } from '../core/errors.ts';
import { definedFields } from '../core/json.ts';
import { createLog, type Log, reason } from '../telemetry/log.ts';
import { type Args, type Context, singleCommandTopic } from './command.ts';
import { commandLine, configOptions } from './own-command.ts';
import { announcement, type Ready, readyOf } from './startup-banner.ts';
import {
  reloadSignal,
  type StopSignal,
  stopSignal,
  type WorkerConfig,
  WorkerPool,
} from './workers.ts';

const workersMax = 64;

export const serve = singleCommandTopic('serve', 'Start the gateway', {
  summary: 'Start the gateway',
  options: {
    host: { value: '<address>', summary: 'Address to listen on' },
    port: { value: '<number>', summary: 'Port to listen on; 0 picks a free one' },
    workers: {
      value: '<number>',
      summary: 'Number of processes that share the port; Linux only (default: 1)',
    },
    worker: {
      value: '<number>',
      summary: 'Number of this worker, set by its parent process',
      isInternal: true,
    },
    joining: {
      summary: 'Set by the parent process if other workers already serve the port',
      isInternal: true,
    },
  },
  run: serveUntilStopped,
});

async function serveUntilStopped(context: Context): Promise<void> {
  const { args, out } = context;
  const workers = readWorkers(args);
  const flags = {
    ...context.flags,
    ...definedFields({ host: args.text('host'), port: args.text('port') }),
  };
  const isWorker = args.has('worker');
  if (isWorker && !process.send) {
    throw usageError('--worker', 'is for internal use. Use --workers instead.');
  }
  // Install these before any slow step, so that a signal during startup isn't lost.
  const stop = stopSignal();
  const hup = reloadSignal(stop);
  const log = createLog(
    (lines) => new Promise<void>((written) => process.stderr.write(lines, () => written())),
  );
  logUncaught(log);
  const serveContext: ServeContext = { flags, log, stop, hup };
  if (isWorker) return serveAsWorker(args, serveContext);
  const text = readConfigText(flags, environment);
  const config = configIn(text, flags);
  const port = probePort(config, flags);
  if (workers === 1) {
    const announce = (ready: Ready) => out(announcement(ready, config, flags));
    const member = { worker: null, workerCount: 1, isJoining: false, stopped: stop.requested };
    return serveOne({ ...serveContext, config, member, announce });
  }
  if (process.platform !== 'linux') {
    throw new Error(
      '--workers requires Linux, where processes can share a port. Leave it out to start one process.',
    );
  }
  const pool = new WorkerPool(workerArgs(flags, port, workers), text, log);
  let running = text;
  hup.onReload(() => {
    const reread = rereadConfig(serveContext, running.source);
    if (!reread) return;
    running = reread.text;
    pool.reload(running);
  });
  const printStartupBanner = (ready: Ready) => out(announcement(ready, config, flags, workers));
  await pool.run(workers, stop, printStartupBanner);
}

/** Serves as one of several processes on a port, with the configuration that the parent sends. */
async function serveAsWorker(args: Args, serveContext: ServeContext): Promise<void> {
  const { flags, stop } = serveContext;
  // Without its parent, nothing would restart or stop this worker.
  process.on('disconnect', stop.request);
  const workerConfig = await Promise.race([receiveWorkerConfig(), stop.requested]);
  if (!workerConfig) return;
  const config = configIn(workerConfig.atStart, flags);
  const reloaded = workerConfig.reloaded && configIn(workerConfig.reloaded, flags);
  const slot = { worker: Number(args.number('worker')), workerCount: readWorkers(args) };
  const member = { ...slot, isJoining: args.has('joining'), stopped: stop.requested };
  const announce = (ready: Ready) => void process.send?.(ready);
  await serveOne({ ...serveContext, config, reloaded, member, announce });
}

/** Resolves with the only message that a parent sends to its worker. */
function receiveWorkerConfig(): Promise<WorkerConfig> {
  return new Promise((resolve) => void process.once('message', resolve));
}

const configIn = (text: ConfigText, flags: Flags) =>
  loadConfig(flags, environment, everySection, text);

/** Logs uncaught errors instead of exiting, because exiting would abort all running requests. */
function logUncaught(log: Log): void {
  const logFailure = (error: unknown) => log.error('unexpected_failure', { reason: reason(error) });
  process.on('uncaughtException', logFailure);
  process.on('unhandledRejection', logFailure);
}

interface ServeContext {
  readonly flags: Flags;
  readonly log: Log;
  readonly stop: StopSignal;
  readonly hup: ReturnType<typeof reloadSignal>;
}

interface ServeOptions extends ServeContext {
  readonly config: Config;
  /** The latest configuration, if the other workers have reloaded theirs. */
  readonly reloaded?: Config | undefined;
  readonly member: WorkerContext;
  announce(ready: Ready): void;
}

/** Runs a gateway in this process until its last request has ended. */
async function serveOne(options: ServeOptions): Promise<void> {
  const { config, flags, log, stop, hup, member } = options;
  let running = config;
  // Imported late. Without this module, the other commands start in half the time.
  const { buildWhenReachable } = await import('../compose/build.ts');
  const building = buildWhenReachable(config, log, member).catch((error) => {
    throw failureCode(error) === 'EADDRINUSE'
      ? new Error(listenError(config, flags, error))
      : error;
  });
  // A second stop signal aborts startup. The remaining migrations are then not applied.
  const tollgate = await Promise.race([building, stop.forced]);
  if (!tollgate) return;
  if (options.reloaded) running = tollgate.reload(options.reloaded).config;
  let port: number;
  try {
    port = tollgate.listen(member.worker !== null);
  } catch (error) {
    await tollgate.drain(0);
    throw new Error(listenError(config, flags, error));
  }
  hup.onReload(() => {
    const reread = rereadConfig(options, running.source);
    if (!reread) return;
    try {
      const { config: next, needRestart, models, change } = tollgate.reload(reread.config);
      running = next;
      // Every worker reloads the file, but this is one act.
      if ((member.worker ?? 1) === 1) {
        const recorded = runAs(operatorSignal, () => tollgate.record(change));
        recorded.catch((error) => log.error('unexpected_failure', { reason: reason(error) }));
      }
      const pending = needRestart.length > 0 ? needRestart.join(', ') : undefined;
      log.info('audit', { actor: 'operator', action: 'settings.reload', target: next.source });
      log.info('config_reloaded', { source: next.source, models, needs_restart: pending });
    } catch (error) {
      log.error('config_rejected', { problem: reason(error) });
    }
  });
  options.announce(readyOf(tollgate, port));
  // Frees about 5 MB of code that only startup needs.
  setTimeout(Bun.shrink, 500).unref();
  await stop.requested;
  const { drainSeconds } = running.server;
  log.info('draining', { seconds: drainSeconds });
  await Promise.race([tollgate.drain(drainSeconds), stop.forced]);
}

const operatorSignal: Actor = {
  ...{ name: 'operator', origin: 'signal', address: null, requestId: null },
};

/** Reads the configuration again. If it is invalid, logs every problem and returns undefined. */
function rereadConfig(
  { flags, log }: ServeContext,
  before: string,
): { text: ConfigText; config: Config } | undefined {
  try {
    const text = readConfigText(flags, environment, before);
    return { text, config: configIn(text, flags) };
  } catch (error) {
    const problems = error instanceof ConfigProblems ? error.message.split('\n') : [];
    for (const problem of problems.length > 0 ? problems : [reason(error)]) {
      log.error('config_rejected', { problem });
    }
    return undefined;
  }
}

function readWorkers(args: Args): number {
  const workers = args.number('workers') ?? 1;
  if (typeof workers === 'number' && workers >= 1 && workers <= workersMax) return workers;
  throw usageError('--workers', `must be a whole number from 1 to ${workersMax}.`);
}

function usageError(path: string, message: string): ConfigProblems {
  return new ConfigProblems('command line', [{ path, message }]);
}

/** Returns a worker's arguments. They include the port, so that all workers share one. */
function workerArgs(flags: Flags, port: number, workers: number): string[] {
  const host = flags.host === undefined ? [] : ['--host', flags.host];
  return [...configOptions(flags), ...host, '--port', String(port), '--workers', String(workers)];
}

/**
 * Checks that the port is free before anything else happens. The first start prints secrets that
 * are shown only once, so it must not print them and then fail to listen.
 */
function probePort(config: Config, flags: Flags): number {
  const { admin } = config.server;
  try {
    if (admin) freePort(admin);
  } catch (error) {
    const where = `${admin?.host}:${admin?.port}`;
    throw new Error(
      `Can't listen on ${where}, as server.admin_port says: ${failureMessage(error)}`,
    );
  }
  try {
    return freePort(config.server);
  } catch (error) {
    throw new Error(listenError(config, flags, error));
  }
}

function freePort({ host: hostname, port }: ListenAddress): number {
  const probe = Bun.listen({ hostname, port, socket: { data() {} } });
  probe.stop(true);
  return probe.port;
}

function listenError(config: Config, flags: Flags, error: unknown): string {
  const { host, port } = config.server;
  const code = failureCode(error);
  const where = `${host}:${port}`;
  if (code === 'EADDRINUSE') {
    const other = commandLine('serve', `--port ${port < 65_535 ? port + 1 : port - 1}`, flags);
    return `Port ${port} on ${host} is already in use. Choose another: "${other}".`;
  }
  if (code === 'EACCES') {
    const other = commandLine('serve', '--port 8080', flags);
    return `This user isn't allowed to listen on ${where}. Choose another port: "${other}".`;
  }
  // A host name that can't be resolved gives an error without a code. An invalid name, such as
  // `[::1]` or a space, gives ENOTFOUND.
  if (code === 'EADDRNOTAVAIL' || code === undefined || code === 'ENOTFOUND') {
    const other = 'Set --host to 127.0.0.1, or to 0.0.0.0 to listen on all addresses.';
    return `Can't listen on ${where}: "${host}" isn't an address of this machine. ${other}`;
  }
  return `Can't listen on ${where}: ${failureMessage(error)}`;
}
