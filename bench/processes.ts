/** Starts the processes of a bench and reads what they cost from the kernel. Linux only. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LoadOrder, LoadResult } from './load.ts';
import { modelAlias } from './workloads.ts';

const root = join(import.meta.dir, '..');
/** Any text of the right form: the gateway takes this key on its first start. */
export const clientKey = 'sk-tg-bench-0123456789abcdef0123456789abcdef';
export const managerKey = 'sk-mgmt-bench-0123456789abcdef0123456789abcdef';
export const adminToken = 'sk-admin-bench-0123456789abcdef0123456789abcdef';

const environment = {
  PATH: process.env.PATH ?? '',
  // Both proxies may hold as many upstream connections as they like.
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

/** All processes that the bench started; they are ended together, the last first. */
export class Processes {
  readonly #running: Bun.Subprocess[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));

  /** Resolves when the program has printed the address at which it is ready. */
  async serve(name: string, ...words: readonly string[]): Promise<Server> {
    const child = Bun.spawn([process.execPath, ...words], {
      cwd: root,
      env: environment,
      stdout: 'pipe',
      // The gateway's line for every request is part of its cost, but nobody reads it.
      stderr: 'ignore',
    });
    this.#running.push(child);
    const reader = child.stdout.getReader();
    const decoder = new TextDecoder();
    let text = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error(`${name} ended before it was ready; run ${words[0]} by hand.`);
      text += decoder.decode(value, { stream: true });
      const url = /ready at (http:\S+)/.exec(text)?.[1];
      if (url) return { name, url, pid: child.pid };
    }
  }

  upstream(chunks: number, spacingMs: number): Promise<Server> {
    const how = [String(chunks), String(spacingMs)];
    return this.serve('upstream', 'bench/cheap-upstream.ts', ...how);
  }

  /** `words` are added to the gateway's command line, `more` to its configuration. */
  async gateway(
    upstream: Server,
    name = 'tollgate',
    program = 'src/main.ts',
    { words = [], more = {} }: { words?: readonly string[]; more?: object } = {},
  ): Promise<Server> {
    const path = join(this.#folder, `${name}.yaml`);
    await Bun.write(path, JSON.stringify({ ...settings(upstream.url), ...more }));
    const data = this.dataOf(name);
    const serve = ['serve', '--config', path, '--data-dir', data, '--port', '0', ...words];
    return this.serve(name, program, ...serve);
  }

  /** The data folder of the gateway of that name, the same for all its starts. */
  dataOf(name: string): string {
    return join(this.#folder, name);
  }

  /** Ends one server cleanly, so that others can open its data. */
  async end({ pid }: Server): Promise<void> {
    const at = this.#running.findIndex((child) => child.pid === pid);
    const [child] = this.#running.splice(at, 1);
    child?.kill('SIGTERM');
    await child?.exited;
  }

  /** Starts a process that sends requests; returns a function that runs one order in it. */
  load(): (order: LoadOrder) => Promise<LoadResult> {
    let answer: (result: LoadResult) => void = () => {};
    const child = Bun.spawn([process.execPath, join(import.meta.dir, 'load.ts')], {
      env: environment,
      stdout: 'inherit',
      stderr: 'inherit',
      ipc: (result: LoadResult) => answer(result),
    });
    this.#running.push(child);
    return (order) =>
      new Promise((resolve, reject) => {
        answer = resolve;
        void child.exited.then(() => reject(new Error('The load generator ended.')));
        child.send(order);
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

function settings(upstreamUrl: string): object {
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

/**
 * User and system time of all threads of a process, including ended ones; the kernel counts in
 * ticks of 10 ms.
 */
export function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The program's name may contain spaces, so fields are counted from behind it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

export function residentMegabytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024;
}
