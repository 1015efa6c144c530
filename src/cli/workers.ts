import type { ConfigText } from '../config/read-file.ts';
import type { Log } from '../telemetry/log.ts';
import type { Ready } from './greeting.ts';
import { ownProgram } from './own-program.ts';
import type { StopSignal } from './signals.ts';

/** Between the death of a worker and its successor; a worker that keeps dying waits longer. */
const restartMsFirst = 200;
const restartMsMax = 30_000;
/** A worker that lived this long did not fail at its start. */
const steadyMs = 60_000;

/**
 * What a worker goes by. The file may say something else by now: nobody has asked for that yet,
 * and a successor with another database would keep other books than the workers beside it.
 */
export interface Briefing {
  readonly atStart: ConfigText;
  /** Undefined until a reload was asked for. */
  readonly reloaded?: ConfigText;
}

interface Worker {
  readonly child: Bun.Subprocess;
  /** Undefined when it ended before it was ready. */
  readonly ready: Promise<Ready | undefined>;
}

/** Processes that share one port. Keeps their number, and ends when all of them have. */
export class Crew {
  readonly #words: readonly string[];
  readonly #log: Log;
  #briefing: Briefing;
  readonly #workers = new Map<number, Worker>();
  #stopping = false;
  #failed = false;

  constructor(words: readonly string[], atStart: ConfigText, log: Log) {
    this.#words = words;
    this.#briefing = { atStart };
    this.#log = log;
  }

  /** The first one alone: it migrates the store and makes what only a first start makes. */
  async run(count: number, stop: StopSignal, greet: (ready: Ready) => void): Promise<void> {
    const numbers = Array.from({ length: count }, (_, i) => i + 1);
    const starting = this.#start(numbers).then((ready) => ready && greet(ready));
    const started = await Promise.race([starting.then(() => true), stop.asked.then(() => false)]);
    if (started && this.#failed) {
      this.#stop();
      await this.#ended();
      throw new Error('The workers could not be started.');
    }
    if (started) for (const number of numbers) void this.#keep(number);
    await stop.asked;
    const alive = [...this.#workers].filter(([, { child }]) => !hasEnded(child));
    this.#stop();
    // Another signal than the first: two of the same kind may arrive as one.
    void stop.again.then(() => this.#signal('SIGINT'));
    await this.#ended();
    await starting;
    for (const [number, { child }] of alive) {
      // One that had only just begun does not know the signal yet, and ends by it.
      if (child.exitCode === 0 || child.signalCode === 'SIGTERM') continue;
      throw new Error(`Worker ${number} did not end well; the log says why.`);
    }
  }

  /** A worker that is still starting gets the signal when it is ready; before, it would end it. */
  reload(reloaded: ConfigText): void {
    this.#briefing = { ...this.#briefing, reloaded };
    for (const { child, ready } of this.#workers.values()) {
      void ready.then((isReady) => isReady && child.kill('SIGHUP'));
    }
  }

  #signal(signal: NodeJS.Signals): void {
    for (const { child } of this.#workers.values()) child.kill(signal);
  }

  /** What to greet with: when all are ready, or when the first made secrets that are shown once. */
  async #start([first = 1, ...rest]: readonly number[]): Promise<Ready | undefined> {
    const ready = await this.#spawn(first, false).ready;
    const next = ready && !this.#stopping ? rest : [];
    const others = await Promise.all(next.map((number) => this.#spawn(number).ready));
    this.#failed ||= !ready || others.includes(undefined);
    const areReady = !this.#failed && !this.#stopping;
    return areReady || ready?.firstSecrets ? ready : undefined;
  }

  /** One that joins others does not listen before it has a database: they serve meanwhile. */
  #spawn(number: number, isJoining = true): Worker {
    const { promise: ready, resolve } = Promise.withResolvers<Ready | undefined>();
    const child = Bun.spawn(
      [...ownProgram(), 'serve', ...this.#words, ...numbered(number, isJoining)],
      {
        stdin: 'ignore',
        stdout: 'inherit',
        stderr: 'inherit',
        // A group of its own: Ctrl-C reaches us only, and a worker hears of it once.
        detached: true,
        ipc: (message: Ready) => resolve(message),
      },
    );
    void child.exited.then(() => resolve(undefined));
    child.send(this.#briefing);
    const worker = { child, ready };
    this.#workers.set(number, worker);
    return worker;
  }

  /** A successor for each one that ends before it was asked to. */
  async #keep(number: number): Promise<void> {
    let restartMs = restartMsFirst;
    let startedAt = performance.now();
    let worker = this.#workers.get(number) ?? this.#spawn(number);
    for (;;) {
      const { child } = worker;
      await child.exited;
      if (this.#stopping) return;
      restartMs =
        performance.now() - startedAt >= steadyMs
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

  async #ended(): Promise<void> {
    await Promise.all([...this.#workers.values()].map(({ child }) => child.exited));
  }
}

function numbered(number: number, isJoining: boolean): string[] {
  return ['--worker', String(number), ...(isJoining ? ['--joining'] : [])];
}

/** One of the two is set, by how it ended. */
function hasEnded({ exitCode, signalCode }: Bun.Subprocess): boolean {
  return exitCode !== null || signalCode !== null;
}
