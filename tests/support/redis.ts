/**
 * Starts an installed Redis or Valkey on a free port, without files. If none is installed, tests
 * that need it print a warning and pass, except in CI.
 */
import { freePort } from './free-port.ts';
import { killAtExit } from './gateway/cleanup-shell.ts';

/** Environment variables that give a gateway a longer Redis timeout. */
export const longRedisTimeout = {
  BUN_OPTIONS: `--preload ${new URL('long-redis-timeout.ts', import.meta.url).pathname}`,
} as const;

const program = Bun.which('redis-server') ?? Bun.which('valkey-server');
const startDeadlineMs = 60_000;
let warned = false;

/** Returns undefined if no server is installed. `settings` are command line arguments. */
export async function startRedis(settings: readonly string[] = []): Promise<TestRedis | undefined> {
  if (program === null) {
    const message = 'redis-server is not installed. Tests that need it are SKIPPED.';
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

  /** Starts an empty server on the same port as before. */
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

  /** Kills the server. All its data is lost. */
  async kill(): Promise<void> {
    this.#server?.kill('SIGKILL');
    await this.#server?.exited;
  }

  /** Freezes the server. Its sockets stay open, but it doesn't respond. */
  pause(): void {
    this.#server?.kill('SIGSTOP');
  }

  resume(): void {
    this.#server?.kill('SIGCONT');
  }

  /** Runs a command on its own connection. */
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
