/** Starts the processes of a benchmark and reads their CPU time and memory. Linux only. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LoadResult, LoadTask } from './load.ts';
import { modelAlias } from './workloads.ts';

const root = join(import.meta.dir, '..');
/** The gateway creates these keys at its first start. */
export const clientKey = 'sk-tg-bench-0123456789abcdef0123456789abcdef';
export const managerKey = 'sk-mgmt-bench-0123456789abcdef0123456789abcdef';
export const adminToken = 'sk-admin-bench-0123456789abcdef0123456789abcdef';

const environment = {
  PATH: process.env.PATH ?? '',
  // This is so high that it doesn't limit the upstream connections of either proxy.
  BUN_CONFIG_MAX_HTTP_REQUESTS: '65336',
  TOLLGATE_BOOTSTRAP_API_KEY: clientKey,
  TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: managerKey,
  TOLLGATE_ADMIN_TOKEN: adminToken,
  TOLLGATE_BOOTSTRAP_CREDITS: String(10 ** 15),
};

export interface Server {
  readonly name: string;
  readonly url: string;
  readonly pid: number;
}

interface GatewayOptions {
  readonly args?: readonly string[];
  readonly config?: object;
  readonly environment?: Readonly<Record<string, string>>;
}

/** The processes of a benchmark. `stop` ends them in reverse order. */
export class Processes {
  readonly #running: Bun.Subprocess[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));

  /** Starts a server and waits until it has printed its URL. */
  serve(name: string, ...args: readonly string[]): Promise<Server> {
    return this.#start(name, args, environment);
  }

  async #start(
    name: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<Server> {
    const child = Bun.spawn([process.execPath, ...args], {
      cwd: root,
      env,
      stdout: 'pipe',
      // The gateway still writes its log lines, which are part of its cost.
      stderr: 'ignore',
    });
    this.#running.push(child);
    const reader = child.stdout.getReader();
    const decoder = new TextDecoder();
    let text = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error(`${name} exited before it was ready. Run ${args[0]} to see why.`);
      text += decoder.decode(value, { stream: true });
      const url = /ready at (http:\S+)/.exec(text)?.[1];
      if (url) return { name, url, pid: child.pid };
    }
  }

  upstream(chunks: number, spacingMs: number): Promise<Server> {
    const args = [String(chunks), String(spacingMs)];
    return this.serve('upstream', 'bench/cheap-upstream.ts', ...args);
  }

  /** Starts a gateway with additional arguments and settings. */
  async gateway(
    upstream: Server,
    name = 'tollgate',
    program = 'src/main.ts',
    { args = [], config = {}, environment: more = {} }: GatewayOptions = {},
  ): Promise<Server> {
    const path = join(this.#folder, `${name}.yaml`);
    await Bun.write(path, JSON.stringify({ ...baseConfig(upstream.url), ...config }));
    const dataDir = this.dataOf(name);
    const serve = ['serve', '--config', path, '--data-dir', dataDir, '--port', '0', ...args];
    return this.#start(name, [program, ...serve], { ...environment, ...more });
  }

  /** Returns the data directory of a gateway, which is the same at every startup. */
  dataOf(name: string): string {
    return join(this.#folder, name);
  }

  /** Stops a server gracefully, so that another process can open its data. */
  async end({ pid }: Server): Promise<void> {
    const index = this.#running.findIndex((child) => child.pid === pid);
    const [child] = this.#running.splice(index, 1);
    child?.kill('SIGTERM');
    await child?.exited;
  }

  /** Starts a load generator and returns a function that sends it a task. */
  load(): (task: LoadTask) => Promise<LoadResult> {
    let onResult: (result: LoadResult) => void = () => {};
    const child = Bun.spawn([process.execPath, join(import.meta.dir, 'load.ts')], {
      env: environment,
      stdout: 'inherit',
      stderr: 'inherit',
      ipc: (result: LoadResult) => onResult(result),
    });
    this.#running.push(child);
    return (task) =>
      new Promise((resolve, reject) => {
        onResult = resolve;
        void child.exited.then(() => reject(new Error('The load generator exited.')));
        child.send(task);
      });
  }

  async stop(): Promise<void> {
    for (const child of this.#running.reverse()) {
      child.kill('SIGKILL');
      await child.exited;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function baseConfig(upstreamUrl: string): object {
  return {
    catalogue: 'none',
    limits: { requests_per_minute: 10 ** 9, concurrent_requests: 10 ** 6 },
    providers: {
      bench: {
        dialect: 'openai',
        base_url: `${upstreamUrl}/v1`,
        api_key: 'sk-upstream-0123456789',
      },
    },
    models: [
      {
        id: modelAlias,
        name: 'Bench',
        input_modalities: ['text'],
        output_modalities: ['text'],
        endpoints: [
          {
            provider: 'bench',
            model: 'large-2024-08-06',
            pricing: { prompt: '0.15', completion: '0.60' },
          },
        ],
      },
    ],
  };
}

/** Returns the CPU time of all threads of a process, including exited threads, to 10 ms. */
export function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The program name may contain spaces, so only the fields after it are counted.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

export function residentMegabytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024;
}
