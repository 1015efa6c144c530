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

/** Longer than any healthy stop takes on a busy machine; the drain itself may take longer. */
const stopDeadlineMs = 60_000;

export interface GatewayOptions extends RunOptions {
  /** The keys from the first start on the same data; later starts do not print them. */
  readonly keys?: Keys;
}

/** Starts a gateway on a free port and waits until it says that it is ready. */
export async function startGateway(options: GatewayOptions = {}): Promise<Gateway> {
  const spawned = spawnTollgate(['serve', '--port', '0'], options);
  // The greeting is one write, so if the text ends in a line break, all of it has arrived.
  const greeting = await spawned.until('stdout', (text) =>
    / is ready at \S+\n/.test(text) && text.endsWith('\n') ? text : undefined,
  );
  const url = / is ready at (\S+)\n/.exec(greeting)?.[1] ?? '';
  const keys = options.keys ?? broughtKeys(options.env ?? {}) ?? printedKeys(greeting);
  return new Gateway(spawned, url, keys, options);
}

export class Gateway implements AsyncDisposable {
  readonly url: string;
  readonly folder: string;
  readonly dataDir: string;
  readonly process: Spawned['process'];
  /** Resolves when the process has ended, in whatever way. */
  readonly finished: Promise<Finished>;
  readonly #spawned: Spawned;
  readonly #keys: Keys | undefined;
  readonly #options: GatewayOptions;
  /** Whether the gateway was asked to end. */
  #asked = false;
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
    throw new Error('This start printed no keys: hand on those of the first one.');
  }

  /** What the gateway printed on standard output. */
  output(): string {
    return this.#spawned.stdout.text;
  }

  errors(): string {
    return this.#spawned.stderr.text;
  }

  /** The gateway's log so far, one object per line. */
  log(): readonly Record<string, unknown>[] {
    return this.errors()
      .split('\n')
      .map(parseJson)
      .filter((line) => isObject(line));
  }

  /** Waits for a line of the log. */
  async untilLogged(event: string): Promise<void> {
    const line = `"event":"${event}"`;
    await this.#spawned.until('stderr', (text) => text.includes(line) || undefined);
  }

  /** A second process on the same store, with the same settings and keys. */
  another(options: GatewayOptions = {}): Promise<Gateway> {
    const keys = this.#keys ? { keys: this.#keys } : {};
    return startGateway({ ...this.#options, dataDir: this.dataDir, ...keys, ...options });
  }

  /** Runs another command, such as `keys list`, on the same store. */
  command(...words: string[]): Promise<Finished> {
    return run(words, { ...this.#options, dataDir: this.dataDir });
  }

  signal(signal: NodeJS.Signals): void {
    if (signal === 'SIGTERM' || signal === 'SIGINT') this.#asked = true;
    this.process.kill(signal);
  }

  /**
   * Asks the gateway to end and returns the exit code, which is 0. Throws, with all output, if it
   * crashed at any time, returned another code, printed a stack trace or did not end. A gateway
   * that was asked before is not asked again: a second signal would cut its running answers short.
   */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number> {
    if (!this.#asked && this.#ended) {
      throw new Error(`The gateway ended by itself: ${describeExit(await this.finished)}`);
    }
    if (!this.#asked) this.signal(signal);
    return this.#leftWell(await this.#gone());
  }

  /** Kills the gateway, as a power cut would. */
  async kill9(): Promise<void> {
    this.#killed = true;
    this.process.kill('SIGKILL');
    await this.finished;
  }

  /**
   * Stops the gateway unless the test already did; in both cases it must have ended without an
   * error.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#killed) await this.stop();
  }

  /** Exit code and signal are both null while the process runs; one is set when it has ended. */
  get #ended(): boolean {
    return this.process.exitCode !== null || this.process.signalCode !== null;
  }

  async #gone(): Promise<Finished> {
    const timer = setTimeout(() => this.process.kill('SIGKILL'), stopDeadlineMs);
    try {
      return await this.finished;
    } finally {
      clearTimeout(timer);
    }
  }

  #leftWell(finished: Finished): number {
    const { exitCode, stderr } = finished;
    const crashed = / {4}at \S|unexpected_failure|panic/.test(stderr);
    if (exitCode !== 0 || crashed) throw new Error(`A bad end: ${describeExit(finished)}`);
    return exitCode;
  }

  // Requests.

  /** Sends a request and waits for the headers of the answer only. */
  request(method: string, path: string, call: Call = {}): Promise<Response> {
    return send(this.url + path, method, call);
  }

  async call(method: string, path: string, call: Call = {}): Promise<Answer> {
    return readAnswer(await this.request(method, path, call));
  }

  /** Sends a chat request, with the routing key unless another is given. */
  chat(body: object, call: Call = {}): Promise<Answer> {
    return this.call('POST', '/v1/chat/completions', { key: this.keys.api, body, ...call });
  }

  async stream(body: object, call: Call = {}): Promise<ChatStream> {
    const wanted = { key: this.keys.api, body: { ...body, stream: true }, ...call };
    return new ChatStream(await this.request('POST', '/v1/chat/completions', wanted));
  }

  /** Sends a request with the management key. */
  manage(method: string, path: string, body?: object): Promise<Answer> {
    return this.call(method, path, { key: this.keys.management, ...(body ? { body } : {}) });
  }

  /** Sends a request with the admin token. */
  admin(method: string, path: string, body?: object): Promise<Answer> {
    return this.call(method, path, { key: this.keys.admin, ...(body ? { body } : {}) });
  }

  /** A tenant's credits, as the operator sees them. */
  async balance(tenant = 'default'): Promise<number> {
    const { status, body, text } = await this.admin('GET', `/admin/v1/tenants/${tenant}/credits`);
    const total = isObject(body.data) ? body.data.total : undefined;
    if (typeof total === 'number') return total;
    throw new Error(`No balance of ${tenant}: ${status} ${text}`);
  }
}

function printedKeys(greeting: string): Keys | undefined {
  const find = (label: string) => new RegExp(`^ +${label} +(sk-\\S+)$`, 'm').exec(greeting)?.[1];
  const [api, management, admin] = ['Routing key', 'Management key', 'Admin token'].map(find);
  return api && management && admin ? { api, management, admin } : undefined;
}

function broughtKeys(env: Readonly<Record<string, string>>): Keys | undefined {
  const api = env.TOLLGATE_BOOTSTRAP_API_KEY;
  const management = env.TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY;
  const admin = env.TOLLGATE_ADMIN_TOKEN;
  return api && management && admin ? { api, management, admin } : undefined;
}
