import { isatty } from 'node:tty';
import type { ConfigText } from '../config/read-file.ts';
import type { Log } from '../telemetry/log.ts';
import type { Ready } from './greeting.ts';
import { programCommand } from './program.ts';

/** How long to wait before a dead worker is replaced; the wait doubles while workers keep dying. */
const restartMsFirst = 200;
const restartMsMax = 30_000;
/** A worker that lived this long did not fail at its start. */
const stableMs = 60_000;

/**
 * The configuration that workers start with. They read the file only when told to reload: it may
 * have changed without that, and a replacement with another database would keep other books than
 * its fellows.
 */
export interface WorkerConfig {
  readonly atStart: ConfigText;
  /** Undefined until a reload was asked for. */
  readonly reloaded?: ConfigText;
}

interface Worker {
  readonly child: Bun.Subprocess;
  /** Undefined if the worker ended before it was ready. */
  readonly ready: Promise<Ready | undefined>;
}

/** Worker processes that share one port. Replaces those that die, and ends when all have ended. */
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
   * Starts the first worker alone: it migrates the store and makes what only a first start makes.
   */
  async run(count: number, stop: StopSignal, greet: (ready: Ready) => void): Promise<void> {
    const numbers = Array.from({ length: count }, (_, i) => i + 1);
    const starting = this.#start(numbers).then((ready) => ready && greet(ready));
    const started = await Promise.race([
      starting.then(() => true),
      stop.requested.then(() => false),
    ]);
    if (started && this.#failed) {
      this.#stop();
      await this.#exited();
      throw new Error('The workers could not be started.');
    }
    if (started) for (const number of numbers) void this.#supervise(number);
    await stop.requested;
    const alive = [...this.#workers].filter(([, { child }]) => !hasEnded(child));
    this.#stop();
    // Not SIGTERM again: two signals of the same kind may arrive as one.
    void stop.forced.then(() => this.#signal('SIGINT'));
    await this.#exited();
    await starting;
    for (const [number, { child }] of alive) {
      // A worker that was still starting has no handler for SIGTERM yet and dies of it: no failure.
      if (child.exitCode === 0 || child.signalCode === 'SIGTERM') continue;
      throw new Error(`Worker ${number} did not end well; the log says why.`);
    }
  }

  /** A worker that is starting gets SIGHUP when it is ready; before that, SIGHUP would end it. */
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
   * Resolves with what the greeting shows when all workers are ready, or in any case if the first
   * one made secrets, which are shown only once.
   */
  async #start([first = 1, ...rest]: readonly number[]): Promise<Ready | undefined> {
    const ready = await this.#spawn(first, false).ready;
    const next = ready && !this.#stopping ? rest : [];
    const others = await Promise.all(next.map((number) => this.#spawn(number).ready));
    this.#failed ||= !ready || others.includes(undefined);
    const areReady = !this.#failed && !this.#stopping;
    return areReady || ready?.firstSecrets ? ready : undefined;
  }

  /**
   * A worker that joins others listens only once it has the database: the others serve meanwhile.
   */
  #spawn(number: number, isJoining = true): Worker {
    const { promise: ready, resolve } = Promise.withResolvers<Ready | undefined>();
    const child = Bun.spawn(
      [...programCommand(), 'serve', ...this.#args, ...slotArgs(number, isJoining)],
      {
        stdin: 'ignore',
        stdout: 'inherit',
        stderr: 'inherit',
        // In a process group of its own: Ctrl-C then reaches only the parent, which tells each
        // worker once.
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

  /** Starts a replacement whenever the worker ends without having been asked to. */
  async #supervise(number: number): Promise<void> {
    let restartMs = restartMsFirst;
    let startedAt = performance.now();
    let worker = this.#workers.get(number) ?? this.#spawn(number);
    for (;;) {
      const { child } = worker;
      await child.exited;
      if (this.#stopping) return;
      restartMs =
        performance.now() - startedAt >= stableMs
          ? restartMsFirst
          : Math.min(restartMs * 2, restartMsMax);
      const { exitCode, signalCode } = child;
      this.#log.error('worker_ended', {
        worker: number,
        exit_code: exitCode,
        signal: signalCode,
        restart_ms: restartMs,
      });
      await Bun.sleep(restartMs);
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

/** Exit code and signal are both null while the process runs; one is set when it has ended. */
function hasEnded({ exitCode, signalCode }: Bun.Subprocess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** The first signal asks to finish running requests, the second not to wait for them. */
export interface StopSignal {
  readonly requested: Promise<void>;
  readonly forced: Promise<void>;
  /** Asks to stop, as a signal would. */
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
 * SIGHUP asks to read the configuration again. Before there is anything to reload it must not end
 * the process, as it would by default. When it comes because the terminal was closed it must end
 * it: nobody could find the process afterwards.
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
