/**
 * A real Redis (or Valkey) for tests, if one is installed, on a free port and without files. If
 * none is installed, the tests that need it say so and pass, except in CI.
 */
import { freePort } from './free-port.ts';
import { killAtExit } from './gateway/cleanup-shell.ts';

/** Environment variables for a gateway that waits longer for Redis than usual. */
export const longRedisTimeout = {
  BUN_OPTIONS: `--preload ${new URL('long-redis-timeout.ts', import.meta.url).pathname}`,
} as const;

const program = Bun.which('redis-server') ?? Bun.which('valkey-server');
const startDeadlineMs = 60_000;
let warned = false;

/** Undefined if no server is installed. `settings` are words of its command line. */
export async function startRedis(settings: readonly string[] = []): Promise<TestRedis | undefined> {
  if (program === null) {
    const message = 'redis-server is not installed, so what needs it is NOT TESTED here.';
    if (process.env.CI === 'true') throw new Error(message);
    if (!warned) process.stderr.write(`\n*** ${message} ***\n\n`);
    warned = true;
    return undefined;
  }
  const redis = new TestRedis(program, freePort(), settings);
  await redis.start();
  return redis;
}

export class TestRedis implements AsyncDisposable {
  readonly url: string;
  readonly #program: string;
  readonly #port: number;
  readonly #settings: readonly string[];
  #server: Bun.Subprocess | undefined;

  constructor(server: string, port: number, settings: readonly string[]) {
    this.#program = server;
    this.#port = port;
    this.#settings = settings;
    this.url = `redis://127.0.0.1:${port}`;
  }

  /** Starts the server, empty, on the same port as before. */
  async start(): Promise<void> {
    const settings = ['--port', String(this.#port), '--bind', '127.0.0.1', '--save', ''];
    settings.push('--appendonly', 'no', '--dir', '/tmp', ...this.#settings);
    const server = Bun.spawn([this.#program, ...settings], {
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'ignore',
    });
    killAtExit(server.pid, server.exited);
    this.#server = server;
    const deadline = performance.now() + startDeadlineMs;
    while (!(await this.#answers())) {
      if (server.exitCode !== null || performance.now() > deadline) {
        throw new Error(`${this.#program} did not start (exit code ${server.exitCode}).`);
      }
      await Bun.sleep(10);
    }
  }

  /** Kills the server, as a power cut would: all of its data is gone. */
  async kill(): Promise<void> {
    this.#server?.kill('SIGKILL');
    await this.#server?.exited;
  }

  /** Freezes the server: its sockets stay open, but nothing answers. */
  pause(): void {
    this.#server?.kill('SIGSTOP');
  }

  resume(): void {
    this.#server?.kill('SIGCONT');
  }

  /** Runs one command on a connection of its own. */
  async command(name: string, ...args: string[]): Promise<unknown> {
    const client = new Bun.RedisClient(this.url, { autoReconnect: false });
    try {
      return await client.send(name, args);
    } finally {
      client.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  async #answers(): Promise<boolean> {
    try {
      return (await this.command('PING')) === 'PONG';
    } catch {
      return false;
    }
  }
}
