import { readFileSync } from 'node:fs';
import { isObject, parseJson } from '../../../src/core/json.ts';
import { type Answer, type Call, ChatStream, readAnswer, send } from './client.ts';
import {
  describeExit,
  type Finished,
  type Keys,
  type RunOptions,
  run,
  type Spawned,
  spawnTollgate,
} from './spawn.ts';

/** Longer than a stop without running requests takes on a busy machine. */
const stopDeadlineMs = 60_000;

export interface GatewayOptions extends RunOptions {
  /** The keys of the first start on this data. Later starts don't show them. */
  readonly keys?: Keys;
}

/** Starts a gateway on a free port and waits until it prints that it is ready. */
export async function startGateway(options: GatewayOptions = {}): Promise<Gateway> {
  const spawned = spawnTollgate(['serve', '--port', '0'], options);
  // The startup banner is one write, so the banner is complete once the text ends in a line break.
  const banner = await spawned.until('stdout', (text) =>
    / is ready at \S+\n/.test(text) && text.endsWith('\n') ? text : undefined,
  );
  const url = / is ready at (\S+)\n/.exec(banner)?.[1] ?? '';
  const keys = options.keys ?? keysInEnv(options.env ?? {}) ?? keysIn(firstStartSecrets(banner));
  return new Gateway(spawned, url, keys, options);
}

export class Gateway implements AsyncDisposable {
  readonly url: string;
  readonly folder: string;
  readonly dataDir: string;
  readonly process: Spawned['process'];
  /** Resolves when the process has ended. */
  readonly finished: Promise<Finished>;
  readonly #spawned: Spawned;
  readonly #keys: Keys | undefined;
  readonly #options: GatewayOptions;
  /** True once the gateway was sent a stop signal. */
  #stopRequested = false;
  #killed = false;

  constructor(spawned: Spawned, url: string, keys: Keys | undefined, options: GatewayOptions) {
    this.url = url;
    this.folder = spawned.folder;
    this.dataDir = spawned.dataDir;
    this.process = spawned.process;
    this.finished = spawned.finished;
    this.#spawned = spawned;
    this.#keys = keys;
    this.#options = options;
  }

  get keys(): Keys {
    if (this.#keys) return this.#keys;
    throw new Error('This start created no keys. Pass the keys of the first start.');
  }

  /** Returns the gateway's standard output. */
  output(): string {
    return this.#spawned.stdout.text;
  }

  errors(): string {
    return this.#spawned.stderr.text;
  }

  /** Returns the gateway's log lines so far, parsed. */
  log(): readonly Record<string, unknown>[] {
    return this.errors()
      .split('\n')
      .map(parseJson)
      .filter((line) => isObject(line));
  }

  /** Waits for a log event. */
  async untilLogged(event: string): Promise<void> {
    const line = `"event":"${event}"`;
    await this.#spawned.until('stderr', (text) => text.includes(line) || undefined, line);
  }

  /** Starts another process on the same store, with the same settings and keys. */
  another(options: GatewayOptions = {}): Promise<Gateway> {
    const keys = this.#keys ? { keys: this.#keys } : {};
    return startGateway({ ...this.#options, dataDir: this.dataDir, ...keys, ...options });
  }

  /** Runs another command, such as `keys list`, on the same store. */
  command(...args: string[]): Promise<Finished> {
    return run(args, { ...this.#options, dataDir: this.dataDir });
  }

  signal(signal: NodeJS.Signals): void {
    if (signal === 'SIGTERM' || signal === 'SIGINT') this.#stopRequested = true;
    this.process.kill(signal);
  }

  /**
   * Stops the gateway and returns the exit code, which is 0. Throws an error with all output if
   * the gateway crashed before, exits with another code, printed a stack trace, or doesn't end.
   * Sends no second signal, because that would interrupt running answers.
   */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number> {
    if (!this.#stopRequested && this.#ended) {
      throw new Error(
        `The gateway exited without being stopped: ${describeExit(await this.finished)}`,
      );
    }
    if (!this.#stopRequested) this.signal(signal);
    return this.#checkExit(await this.#waitForExit());
  }

  /** Kills the gateway with SIGKILL, like a power failure. */
  async kill9(): Promise<void> {
    this.#killed = true;
    this.process.kill('SIGKILL');
    await this.finished;
  }

  /** Stops the gateway, or checks that it was stopped without an error. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#killed) await this.stop();
  }

  /** While the process runs, exit code and signal are null. */
  get #ended(): boolean {
    return this.process.exitCode !== null || this.process.signalCode !== null;
  }

  async #waitForExit(): Promise<Finished> {
    const timer = setTimeout(() => this.process.kill('SIGKILL'), stopDeadlineMs);
    try {
      return await this.finished;
    } finally {
      clearTimeout(timer);
    }
  }

  #checkExit(finished: Finished): number {
    const { exitCode, stderr } = finished;
    const crashed = / {4}at \S|unexpected_failure|panic/.test(stderr);
    if (exitCode !== 0 || crashed) throw new Error(`The gateway failed: ${describeExit(finished)}`);
    return exitCode;
  }

  /** Sends a request and waits only for the response's headers. */
  request(method: string, path: string, call: Call = {}): Promise<Response> {
    return send(this.url + path, method, call);
  }

  async call(method: string, path: string, call: Call = {}): Promise<Answer> {
    return readAnswer(await this.request(method, path, call));
  }

  /** Sends a chat request, by default with the routing key. */
  chat(body: object, call: Call = {}): Promise<Answer> {
    return this.call('POST', '/v1/chat/completions', { key: this.keys.api, body, ...call });
  }

  async stream(body: object, call: Call = {}): Promise<ChatStream> {
    const options = { key: this.keys.api, body: { ...body, stream: true }, ...call };
    return new ChatStream(await this.request('POST', '/v1/chat/completions', options));
  }

  /** Sends a request with the management key. */
  manage(method: string, path: string, body?: object): Promise<Answer> {
    return this.call(method, path, { key: this.keys.management, ...(body ? { body } : {}) });
  }

  /** Sends a request with the admin token. */
  admin(method: string, path: string, body?: object): Promise<Answer> {
    return this.call(method, path, { key: this.keys.admin, ...(body ? { body } : {}) });
  }

  /** Returns a tenant's credits from the admin API. */
  async balance(tenant = 'default'): Promise<number> {
    const { status, body, text } = await this.admin('GET', `/admin/v1/tenants/${tenant}/credits`);
    const total = isObject(body.data) ? body.data.total : undefined;
    if (typeof total === 'number') return total;
    throw new Error(`The response has no balance of ${tenant}: ${status} ${text}`);
  }
}

/** Returns the content of the file with the first start's secrets, or '' if it isn't printed. */
export function firstStartSecrets(output: string): string {
  const [, file] = /^ {2}(\/.*\/first-start-secrets\.txt)$/m.exec(output) ?? [];
  return file === undefined ? '' : readFileSync(file, 'utf8');
}

function keysIn(secrets: string): Keys | undefined {
  const find = (label: string) => new RegExp(`^ +${label} +(sk-\\S+)$`, 'm').exec(secrets)?.[1];
  const [api, management, admin] = ['Routing key', 'Management key', 'Admin token'].map(find);
  return api && management && admin ? { api, management, admin } : undefined;
}

function keysInEnv(env: Readonly<Record<string, string>>): Keys | undefined {
  const api = env.TOLLGATE_BOOTSTRAP_API_KEY;
  const management = env.TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY;
  const admin = env.TOLLGATE_ADMIN_TOKEN;
  return api && management && admin ? { api, management, admin } : undefined;
}
