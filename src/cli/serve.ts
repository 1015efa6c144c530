import type { WorkerContext } from '../compose/build.ts';
import type { Config } from '../config/config.ts';
import { environment } from '../config/environment.ts';
import type { Flags } from '../config/load.ts';
import { everySection, loadConfig, readConfigText } from '../config/load.ts';
import { ConfigProblems } from '../config/problems.ts';
import type { ConfigText } from '../config/read-file.ts';
import { failureCode, failureMessage } from '../core/errors.ts';
import { definedFields } from '../core/json.ts';
import { createLog, type Log, reason } from '../telemetry/log.ts';
import { type Args, type Context, singleCommandTopic } from './command.ts';
import { greeting, type Ready, readyOf } from './greeting.ts';
import { commandLine, configOptions } from './program.ts';
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
    port: { value: '<number>', summary: 'Port to listen on; 0 for any free one' },
    workers: {
      value: '<number>',
      summary: 'Processes that share the port (Linux); 1 when left out',
    },
    worker: {
      value: '<number>',
      summary: 'Set by --workers for each process that it starts',
      isInternal: true,
    },
    joining: {
      summary: 'Set by --workers where others serve at the port already',
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
    throw usageError('--worker', 'is set by --workers; start with that instead.');
  }
  // Installed before anything slow: a stop during the start must not be lost.
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
    const announce = (ready: Ready) => out(greeting(ready, config, flags));
    const member = { worker: null, workerCount: 1, isJoining: false, stopped: stop.requested };
    return serveOne({ ...serveContext, config, member, announce });
  }
  if (process.platform !== 'linux') {
    throw new Error('--workers needs Linux, where processes can share a port; start one without.');
  }
  const pool = new WorkerPool(workerArgs(flags, port, workers), text, log);
  let running = text;
  hup.onReload(() => {
    const reread = rereadConfig(serveContext, running.source);
    if (!reread) return;
    running = reread.text;
    pool.reload(running);
  });
  const greet = (ready: Ready) => out(greeting(ready, config, flags, workers));
  await pool.run(workers, stop, greet);
}

/** Serves as one of several processes on one port, with what its parent process sends it. */
async function serveAsWorker(args: Args, serveContext: ServeContext): Promise<void> {
  const { flags, stop } = serveContext;
  // Nobody would restart or stop a worker whose parent is gone.
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

/** The first and only thing that a parent tells its worker. */
function receiveWorkerConfig(): Promise<WorkerConfig> {
  return new Promise((resolve) => void process.once('message', resolve));
}

const configIn = (text: ConfigText, flags: Flags) =>
  loadConfig(flags, environment, everySection, text);

/** An exception that nobody caught must not end all other requests. */
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
  /** The configuration that a reload gave the other workers before this one started. */
  readonly reloaded?: Config | undefined;
  readonly member: WorkerContext;
  announce(ready: Ready): void;
}

/** One gateway in this process, from its start until its last request has ended. */
async function serveOne(options: ServeOptions): Promise<void> {
  const { config, flags, log, stop, hup, member } = options;
  let running = config;
  // Imported only here: without it, the other commands start in half the time.
  const { buildWhenReachable: buildLate } = await import('../compose/build.ts');
  const building = buildLate(config, log, member).catch((error) => {
    throw failureCode(error) === 'EADDRINUSE'
      ? new Error(listenError(config, flags, error))
      : error;
  });
  // On a second stop signal the start is given up; migrations not yet applied stay unapplied.
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
      const { config: next, needRestart, models } = tollgate.reload(reread.config);
      running = next;
      const waits = needRestart.length > 0 ? needRestart.join(', ') : undefined;
      log.info('config_reloaded', { source: next.source, models, needs_restart: waits });
    } catch (error) {
      log.error('config_refused', { problem: reason(error) });
    }
  });
  options.announce(readyOf(tollgate, port));
  // Gives back five megabytes of code that only a start needs.
  setTimeout(Bun.shrink, 500).unref();
  await stop.requested;
  const { drainSeconds } = running.server;
  log.info('draining', { seconds: drainSeconds });
  await Promise.race([tollgate.drain(drainSeconds), stop.forced]);
}

/** Reads the configuration again; undefined if it is wrong, with every problem in the log. */
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
      log.error('config_refused', { problem });
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

/** The arguments of a worker. They name the port, so that all workers listen on the same one. */
function workerArgs(flags: Flags, port: number, workers: number): string[] {
  const host = flags.host === undefined ? [] : ['--host', flags.host];
  return [...configOptions(flags), ...host, '--port', String(port), '--workers', String(workers)];
}

/**
 * Tries the port before anything else: a first start makes secrets and shows them once, which must
 * not happen if it then cannot listen.
 */
function probePort(config: Config, flags: Flags): number {
  const { host: hostname, port } = config.server;
  try {
    const probe = Bun.listen({ hostname, port, socket: { data() {} } });
    probe.stop(true);
    return probe.port;
  } catch (error) {
    throw new Error(listenError(config, flags, error));
  }
}

function listenError(config: Config, flags: Flags, error: unknown): string {
  const { host, port } = config.server;
  const code = failureCode(error);
  const where = `${host}:${port}`;
  if (code === 'EADDRINUSE') {
    const other = commandLine('serve', `--port ${port < 65_535 ? port + 1 : port - 1}`, flags);
    return `Port ${port} on ${host} is already in use; choose another: "${other}".`;
  }
  if (code === 'EACCES') {
    const other = commandLine('serve', '--port 8080', flags);
    return `Listening on ${where} is not allowed for this user; choose another port: "${other}".`;
  }
  // The error for a host name that cannot be resolved has no code; for what is no name, such as
  // `[::1]` or a blank, it is ENOTFOUND.
  if (code === 'EADDRNOTAVAIL' || code === undefined || code === 'ENOTFOUND') {
    const other = 'set --host to 127.0.0.1, or to 0.0.0.0 for all that it has';
    return `Cannot listen on ${where}: "${host}" is no address of this machine; ${other}.`;
  }
  return `Cannot listen on ${where}: ${failureMessage(error)}`;
}
