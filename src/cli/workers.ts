import { isatty } from 'node:tty';
import type { ConfigText } from '../config/read-file.ts';
import type { Log } from '../telemetry/log.ts';
import { programCommand } from './own-command.ts';
import type { Ready } from './startup-banner.ts';

/** Delay before a dead worker is replaced. It doubles each time a worker dies early. */
const restartMsFirst = 200;
const restartMsMax = 30_000;
/** A worker that ran this long has started successfully, so the delay is reset. */
const stableMs = 60_000;

/**
 * The configuration that workers start with. They don't read the file themselves, because it may
 * have changed since the last reload, and a replacement worker must not use another database.
 */
export interface WorkerConfig {
  readonly atStart: ConfigText;
  /** Undefined until the first reload. */
  readonly reloaded?: ConfigText;
}

interface Worker {
  readonly child: Bun.Subprocess;
  /** Undefined if the worker ended before it was ready. */
  readonly ready: Promise<Ready | undefined>;
}

/** Worker processes that share a port. Replaces those that die. */
export class WorkerPool {
  readonly #args: readonly string[];
  readonly #log: Log;
  #config: WorkerConfig;
  readonly #workers = new Map<number, Worker>();
  #stopping = false;
  #failed = false;

  constructor(args: readonly string[], atStart: ConfigText, log: Log) {
    this.#args = args;
    this.#config = { atStart };
    this.#log = log;
  }

  /**
   * Runs until all workers have ended. The first worker starts alone, because it migrates the store
   * and creates the first tenant and its secrets.
   */
  async run(
    count: number,
    stop: StopSignal,
    printStartupBanner: (ready: Ready) => void,
  ): Promise<void> {
    const numbers = Array.from({ length: count }, (_, i) => i + 1);
    const starting = this.#start(numbers).then((ready) => ready && printStartupBanner(ready));
    const started = await Promise.race([
      starting.then(() => true),
      stop.requested.then(() => false),
    ]);
    if (started && this.#failed) {
      this.#stop();
      await this.#exited();
      throw new Error('The workers failed to start. The log says why.');
    }
    if (started) for (const number of numbers) void this.#supervise(number);
    await stop.requested;
    const alive = [...this.#workers].filter(([, { child }]) => !hasEnded(child));
    this.#stop();
    // Don't send SIGTERM again, because two signals of the same kind may be delivered as one.
    void stop.forced.then(() => this.#signal('SIGINT'));
    await this.#exited();
    await starting;
    for (const [number, { child }] of alive) {
      // A worker without a SIGTERM handler yet is killed by the signal. That isn't a failure.
      if (child.exitCode === 0 || child.signalCode === 'SIGTERM') continue;
      throw new Error(`Worker ${number} didn't shut down cleanly. The log says why.`);
    }
  }

  /**
   * Reloads all workers. SIGHUP is sent once a worker is ready, because before that it would kill
   * the worker.
   */
  reload(reloaded: ConfigText): void {
    this.#config = { ...this.#config, reloaded };
    for (const { child, ready } of this.#workers.values()) {
      void ready.then((isReady) => isReady && child.kill('SIGHUP'));
    }
  }

  #signal(signal: NodeJS.Signals): void {
    for (const { child } of this.#workers.values()) child.kill(signal);
  }

  /**
   * Starts all workers. Resolves with the startup banner's data once they are ready, or despite a
   * failure if the first worker created secrets, which are shown only once.
   */
  async #start([first = 1, ...rest]: readonly number[]): Promise<Ready | undefined> {
    const ready = await this.#spawn(first, false).ready;
    const next = ready && !this.#stopping ? rest : [];
    const others = await Promise.all(next.map((number) => this.#spawn(number).ready));
    this.#failed ||= !ready || others.includes(undefined);
    const areReady = !this.#failed && !this.#stopping;
    return areReady || ready?.firstSecrets ? ready : undefined;
  }

  /** Starts a worker. If others already serve the port, it waits for the database and listens. */
  #spawn(number: number, isJoining = true): Worker {
    const { promise: ready, resolve } = Promise.withResolvers<Ready | undefined>();
    const child = Bun.spawn(
      [...programCommand(), 'serve', ...this.#args, ...slotArgs(number, isJoining)],
      {
        stdin: 'ignore',
        stdout: 'inherit',
        stderr: 'inherit',
        // With its own process group, a worker doesn't receive Ctrl-C. The parent signals it once.
        detached: true,
        ipc: (message: Ready) => resolve(message),
      },
    );
    void child.exited.then(() => resolve(undefined));
    child.send(this.#config);
    const worker = { child, ready };
    this.#workers.set(number, worker);
    return worker;
  }

  /** Replaces the worker whenever it ends, until the pool stops. */
  async #supervise(number: number): Promise<void> {
    let restartMs = restartMsFirst;
    let startedAt = performance.now();
    let worker = this.#workers.get(number) ?? this.#spawn(number);
    for (;;) {
      const { child } = worker;
      await child.exited;
      if (this.#stopping) return;
      if (performance.now() - startedAt >= stableMs) restartMs = restartMsFirst;
      const { exitCode, signalCode } = child;
      this.#log.error('worker_ended', {
        worker: number,
        exit_code: exitCode,
        signal: signalCode,
        restart_ms: restartMs,
      });
      await Bun.sleep(restartMs);
      restartMs = Math.min(restartMs * 2, restartMsMax);
      if (this.#stopping) return;
      startedAt = performance.now();
      worker = this.#spawn(number);
    }
  }

  #stop(): void {
    this.#stopping = true;
    this.#signal('SIGTERM');
  }

  async #exited(): Promise<void> {
    await Promise.all([...this.#workers.values()].map(({ child }) => child.exited));
  }
}

function slotArgs(number: number, isJoining: boolean): string[] {
  return ['--worker', String(number), ...(isJoining ? ['--joining'] : [])];
}

/** Returns whether the process has ended. While it runs, exit code and signal are both null. */
function hasEnded({ exitCode, signalCode }: Bun.Subprocess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** On the first signal, the process finishes running requests. On the second, it stops at once. */
export interface StopSignal {
  readonly requested: Promise<void>;
  readonly forced: Promise<void>;
  /** Has the same effect as a signal. */
  request(): void;
}

export function stopSignal(): StopSignal {
  const requested = Promise.withResolvers<void>();
  const forced = Promise.withResolvers<void>();
  let count = 0;
  const request = () => (count++ === 0 ? requested : forced).resolve();
  process.on('SIGTERM', request);
  process.on('SIGINT', request);
  return { requested: requested.promise, forced: forced.promise, request };
}

/**
 * Reloads the configuration on SIGHUP. Without this handler, the signal would end a process that is
 * still starting. If the signal means that the terminal was closed, the process stops: otherwise,
 * it would keep running unnoticed.
 */
export function reloadSignal(stop: StopSignal): { onReload(reload: () => void): void } {
  const hadTerminal = isatty(0);
  let reload = () => {};
  let missed = false;
  process.on('SIGHUP', () => {
    if (hadTerminal && !isatty(0)) return stop.request();
    missed = true;
    reload();
  });
  return {
    onReload(handler) {
      reload = handler;
      if (missed) handler();
    },
  };
}
