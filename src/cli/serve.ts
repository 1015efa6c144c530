import type { Config } from '../config/config.ts';
import { environment } from '../config/environment.ts';
import { everySection, loadConfig, readConfigText } from '../config/load.ts';
import type { Flags } from '../config/overrides.ts';
import { ConfigProblems } from '../config/problems.ts';
import type { ConfigText } from '../config/read-file.ts';
import { failureCode, failureMessage } from '../core/failure-code.ts';
import { given } from '../core/given.ts';
import { createLog, type Log, reason } from '../telemetry/log.ts';
import type { CrewMember } from '../wire.ts';
import { type Args, type Context, onlyCommand } from './command.ts';
import { greeting, type Ready, readyOf } from './greeting.ts';
import { samePlace, typed } from './own-program.ts';
import { reloadSignal, type StopSignal, stopSignal } from './signals.ts';
import { type Briefing, Crew } from './workers.ts';

const workersMax = 64;

export const serve = onlyCommand('serve', 'Start the gateway', {
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
    ...given({ host: args.text('host'), port: args.text('port') }),
  };
  const isWorker = args.has('worker');
  if (isWorker && !process.send) {
    throw misused('--worker', 'is set by --workers; start with that instead.');
  }
  // Installed before anything slow: a stop during the start must not be lost.
  const stop = stopSignal();
  const hup = reloadSignal(stop);
  const log = createLog(
    (lines) => new Promise<void>((taken) => process.stderr.write(lines, () => taken())),
  );
  outlive(log);
  const around: Around = { flags, log, stop, hup };
  if (isWorker) return serveAsWorker(args, around);
  const text = readConfigText(flags, environment);
  const config = configIn(text, flags);
  const port = tryPort(config, flags);
  if (workers === 1) {
    const announce = (ready: Ready) => out(greeting(ready, config, flags));
    const member = { worker: null, crew: 1, isJoining: false, stopped: stop.asked };
    return serveOne({ ...around, config, member, announce });
  }
  if (process.platform !== 'linux') {
    throw new Error('--workers needs Linux, where processes can share a port; start one without.');
  }
  const crew = new Crew(childWords(flags, port, workers), text, log);
  let running = text;
  hup.call(() => {
    const again = readAgain(around, running.source);
    if (!again) return;
    running = again.text;
    crew.reload(running);
  });
  const greet = (ready: Ready) => out(greeting(ready, config, flags, workers));
  await crew.run(workers, stop, greet);
}

/** Serves as one of several processes on one port, with what its parent process sends it. */
async function serveAsWorker(args: Args, around: Around): Promise<void> {
  const { flags, stop } = around;
  // Nobody would restart or stop a worker whose parent is gone.
  process.on('disconnect', stop.ask);
  const briefing = await Promise.race([briefed(), stop.asked]);
  if (!briefing) return;
  const config = configIn(briefing.atStart, flags);
  const reloaded = briefing.reloaded && configIn(briefing.reloaded, flags);
  const place = { worker: Number(args.number('worker')), crew: readWorkers(args) };
  const member = { ...place, isJoining: args.has('joining'), stopped: stop.asked };
  const announce = (ready: Ready) => void process.send?.(ready);
  await serveOne({ ...around, config, reloaded, member, announce });
}

/** The first and only thing that a parent tells its worker. */
function briefed(): Promise<Briefing> {
  return new Promise((resolve) => void process.once('message', resolve));
}

const configIn = (text: ConfigText, flags: Flags) =>
  loadConfig(flags, environment, everySection, text);

/** An exception that nobody caught must not end all other requests. */
function outlive(log: Log): void {
  const tell = (thrown: unknown) => log.error('unexpected_failure', { reason: reason(thrown) });
  process.on('uncaughtException', tell);
  process.on('unhandledRejection', tell);
}

interface Around {
  readonly flags: Flags;
  readonly log: Log;
  readonly stop: StopSignal;
  readonly hup: ReturnType<typeof reloadSignal>;
}

interface Serving extends Around {
  readonly config: Config;
  /** The configuration that a reload gave the other workers before this one started. */
  readonly reloaded?: Config | undefined;
  readonly member: CrewMember;
  announce(ready: Ready): void;
}

/** One gateway in this process, from its start until its last request has ended. */
async function serveOne(serving: Serving): Promise<void> {
  const { config, flags, log, stop, hup, member } = serving;
  let running = config;
  // Imported only here: without it, the other commands start in half the time.
  const { buildLate } = await import('../wire.ts');
  const building = buildLate(config, log, member).catch((thrown) => {
    throw failureCode(thrown) === 'EADDRINUSE'
      ? new Error(cannotListen(config, flags, thrown))
      : thrown;
  });
  // On a second stop signal the start is given up; migrations not yet applied stay unapplied.
  const tollgate = await Promise.race([building, stop.again]);
  if (!tollgate) return;
  if (serving.reloaded) running = tollgate.reload(serving.reloaded).config;
  let port: number;
  try {
    port = tollgate.listen(member.worker !== null);
  } catch (thrown) {
    await tollgate.drain(0);
    throw new Error(cannotListen(config, flags, thrown));
  }
  hup.call(() => {
    const again = readAgain(serving, running.source);
    if (!again) return;
    try {
      const { config: next, needRestart, models } = tollgate.reload(again.config);
      running = next;
      const waits = needRestart.length > 0 ? needRestart.join(', ') : undefined;
      log.info('config_reloaded', { source: next.source, models, needs_restart: waits });
    } catch (thrown) {
      log.error('config_refused', { problem: reason(thrown) });
    }
  });
  serving.announce(readyOf(tollgate, port));
  // Gives back five megabytes of code that only a start needs.
  setTimeout(Bun.shrink, 500).unref();
  await stop.asked;
  const { drainSeconds } = running.server;
  log.info('draining', { seconds: drainSeconds });
  await Promise.race([tollgate.drain(drainSeconds), stop.again]);
}

/** Reads the configuration again; undefined if it is wrong, with every problem in the log. */
function readAgain(
  { flags, log }: Around,
  before: string,
): { text: ConfigText; config: Config } | undefined {
  try {
    const text = readConfigText(flags, environment, before);
    return { text, config: configIn(text, flags) };
  } catch (thrown) {
    const problems = thrown instanceof ConfigProblems ? thrown.message.split('\n') : [];
    for (const problem of problems.length > 0 ? problems : [reason(thrown)]) {
      log.error('config_refused', { problem });
    }
    return undefined;
  }
}

function readWorkers(args: Args): number {
  const workers = args.number('workers') ?? 1;
  if (typeof workers === 'number' && workers >= 1 && workers <= workersMax) return workers;
  throw misused('--workers', `must be a whole number from 1 to ${workersMax}.`);
}

function misused(path: string, message: string): ConfigProblems {
  return new ConfigProblems('command line', [{ path, message }]);
}

/** The arguments of a worker. They name the port, so that all workers listen on the same one. */
function childWords(flags: Flags, port: number, workers: number): string[] {
  const host = flags.host === undefined ? [] : ['--host', flags.host];
  return [...samePlace(flags), ...host, '--port', String(port), '--workers', String(workers)];
}

/**
 * Tries the port before anything else: a first start makes secrets and shows them once, which must
 * not happen if it then cannot listen.
 */
function tryPort(config: Config, flags: Flags): number {
  const { host: hostname, port } = config.server;
  try {
    const probe = Bun.listen({ hostname, port, socket: { data() {} } });
    probe.stop(true);
    return probe.port;
  } catch (thrown) {
    throw new Error(cannotListen(config, flags, thrown));
  }
}

function cannotListen(config: Config, flags: Flags, thrown: unknown): string {
  const { host, port } = config.server;
  const code = failureCode(thrown);
  const where = `${host}:${port}`;
  if (code === 'EADDRINUSE') {
    const other = typed('serve', `--port ${port < 65_535 ? port + 1 : port - 1}`, flags);
    return `Port ${port} on ${host} is already in use; choose another: "${other}".`;
  }
  if (code === 'EACCES') {
    const other = typed('serve', '--port 8080', flags);
    return `Listening on ${where} is not allowed for this user; choose another port: "${other}".`;
  }
  // The error for a host name that cannot be resolved has no code; for what is no name, such as
  // `[::1]` or a blank, it is ENOTFOUND.
  if (code === 'EADDRNOTAVAIL' || code === undefined || code === 'ENOTFOUND') {
    const other = 'set --host to 127.0.0.1, or to 0.0.0.0 for all that it has';
    return `Cannot listen on ${where}: "${host}" is no address of this machine; ${other}.`;
  }
  return `Cannot listen on ${where}: ${failureMessage(thrown)}`;
}
