/** Runs the CLI in its own process, without this machine's environment variables. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { within } from '../wait-until.ts';
import { killAtExit, newFolder, sharedHome } from './cleanup-shell.ts';
import { type UpstreamConfig, upstreamConfig } from './config.ts';

const program = new URL('../../../src/main.ts', import.meta.url).pathname;

/** Longer than a start or a command takes on a busy machine. */
const outputMsMax = 60_000;

export interface Keys {
  readonly api: string;
  readonly management: string;
  readonly admin: string;
}

export interface RunOptions {
  /** Written to `tollgate.yaml` in the working directory. A string is written unchanged. */
  readonly config?: object | string;
  /** Providers and models at fake upstreams. Fields of `config` override them. */
  readonly upstreams?: Readonly<Record<string, UpstreamConfig>>;
  readonly env?: Readonly<Record<string, string>>;
  /** The data directory of another run. By default, a new `./data`. */
  readonly dataDir?: string;
  /** Additional command line arguments. */
  readonly args?: readonly string[];
  /** The limit of open files and connections. By default, the limit of this machine. */
  readonly openFilesMax?: number;
}

/** A started command, whose output is collected. */
export interface Spawned {
  readonly process: Bun.Subprocess<'ignore', 'pipe', 'pipe'>;
  readonly folder: string;
  readonly dataDir: string;
  readonly stdout: Collected;
  readonly stderr: Collected;
  /** Resolves when the process has ended and all output was read. */
  readonly finished: Promise<Finished>;
  /** Waits until `look` returns a value for the output. Rejects if the process ends first. */
  until<Found>(
    where: 'stdout' | 'stderr',
    look: (text: string) => Found | undefined,
    subject?: string,
  ): Promise<Found>;
}

export interface Finished {
  /** If signal n ended the process: 128 + n, as in shells. */
  readonly exitCode: number;
  readonly signal: NodeJS.Signals | number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export function spawnTollgate(command: readonly string[], options: RunOptions = {}): Spawned {
  const folder = newFolder();
  writeConfig(folder, options);
  const dataDir = options.dataDir ?? join(folder, 'data');
  const flags = options.dataDir === undefined ? [] : ['--data-dir', options.dataDir];
  const child = Bun.spawn(
    [
      ...limiting(options),
      process.execPath,
      program,
      ...command,
      ...flags,
      ...(options.args ?? []),
    ],
    {
      cwd: folder,
      env: { PATH: process.env.PATH ?? '', HOME: sharedHome(), ...options.env },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    },
  );
  killAtExit(child.pid, child.exited);
  const stdout = new Collected(child.stdout);
  const stderr = new Collected(child.stderr);
  const finished = Promise.all([child.exited, stdout.ended, stderr.ended]).then(([exitCode]) => ({
    exitCode,
    signal: child.signalCode,
    stdout: stdout.text,
    stderr: stderr.text,
  }));
  return {
    process: child,
    folder,
    dataDir,
    stdout,
    stderr,
    finished,
    async until(where, look, subject = String(look)) {
      const found = await within(
        (where === 'stdout' ? stdout : stderr).until(look),
        `${subject} in the ${where} of tollgate ${command.join(' ')}`,
        outputMsMax,
      );
      if (found !== undefined) return found;
      throw new Error(`The command exited early: ${describeExit(await finished)}`);
    },
  };
}

/** Returns a command prefix that limits the number of open files. */
function limiting({ openFilesMax }: RunOptions): string[] {
  if (openFilesMax === undefined) return [];
  return ['sh', '-c', 'ulimit -n "$0" && exec "$@"', String(openFilesMax)];
}

/** Runs a command to its end. */
export function run(command: readonly string[], options: RunOptions = {}): Promise<Finished> {
  const { finished } = spawnTollgate(command, options);
  return within(finished, `the end of tollgate ${command.join(' ')}`, outputMsMax);
}

export function describeExit({ exitCode, signal, stdout, stderr }: Finished): string {
  return `exit code ${exitCode}, signal ${signal}\n${stdout}\n${stderr}`;
}

function writeConfig(folder: string, { config, upstreams }: RunOptions): void {
  if (config === undefined && upstreams === undefined) return;
  const text =
    typeof config === 'string'
      ? config
      : stringify({ ...(upstreams ? upstreamConfig(upstreams) : {}), ...config });
  writeFileSync(join(folder, 'tollgate.yaml'), text);
}

/** Collects the text from a pipe. Callers can wait until it contains something. */
class Collected {
  text = '';
  readonly ended: Promise<void>;
  #over = false;
  #next = Promise.withResolvers<void>();

  constructor(stream: ReadableStream<Uint8Array>) {
    this.ended = this.#collect(stream);
  }

  /** Waits until `look` returns a value for the text. Returns undefined if the pipe ends first. */
  async until<Found>(look: (text: string) => Found | undefined): Promise<Found | undefined> {
    for (;;) {
      const over = this.#over;
      const { promise } = this.#next;
      const found = look(this.text);
      if (found !== undefined || over) return found;
      await promise;
    }
  }

  async #collect(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const bytes of stream) {
      this.text += decoder.decode(bytes, { stream: true });
      this.#wake();
    }
    this.#over = true;
    this.#wake();
  }

  #wake(): void {
    const { resolve } = this.#next;
    this.#next = Promise.withResolvers();
    resolve();
  }
}
