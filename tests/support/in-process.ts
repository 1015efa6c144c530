import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build, type Tollgate } from '../../src/compose/build.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { isObject, parseJson } from '../../src/core/json.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { newFolder } from './gateway/cleanup-shell.ts';
import { readSse, readStreamText, type SseReading } from './sse-client.ts';
import { within } from './wait-until.ts';

// A complete gateway in the test's process, with a real socket and a real SQLite file.

export interface GatewaySettings {
  readonly providers: Readonly<Record<string, object>>;
  readonly models: readonly object[];
  readonly aliases?: object;
  readonly prices?: readonly object[];
  readonly plans?: object;
  readonly limits?: object;
  readonly billing?: object;
  readonly tools?: object;
  readonly cache?: object;
  readonly logs?: object;
  readonly private_addresses?: readonly string[];
  readonly demo?: boolean;
  readonly ambiguous_model_names?: 'first' | 'reject';
  readonly chat_error_codes?: 'status' | 'name';
  /** The configured number of worker processes. */
  readonly workers?: number;
  /** Additional environment variables. */
  readonly environment?: Readonly<Record<string, string>>;
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body, or an empty object if it isn't a JSON object. */
  readonly json: Record<string, unknown>;
  /** The body's `error`, or an empty object if the request succeeded. */
  readonly error: Record<string, unknown>;
  readonly requestId: string;
}

export interface SendOptions {
  readonly path?: string;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** More than a test can send when it polls or checks many requests. */
const manyReads = 1_000_000;

/** Longer than any answer takes, even where a test lets a provider be silent. */
const answerMsMax = 90_000;

const keys = {
  routing: 'sk-tg-inprocess-0123456789abcdef0123456789',
  management: 'sk-mgmt-inprocess-0123456789abcdef01234567',
  admin: 'sk-admin-inprocess-0123456789abcdef0123456',
};

export class InProcessGateway {
  readonly url: string;
  readonly keys = keys;
  /** A second connection to the gateway's database. */
  readonly store: Store;
  /** The data directory. */
  readonly folder: string;
  /** The lines of the operator's log. */
  readonly logLines: readonly string[];
  readonly #tollgate: Tollgate;
  readonly #config: Config;

  static async start({
    environment = {},
    workers = 1,
    ...settings
  }: GatewaySettings): Promise<InProcessGateway> {
    const folder = newFolder();
    const file = join(folder, 'tollgate.json');
    const base = { catalogue: 'none', demo: false, server: { drain_seconds: 1 } };
    const limits = { reads_per_minute: manyReads, ...settings.limits };
    await writeFile(file, JSON.stringify({ ...base, ...settings, limits }));
    const config = loadConfig(
      { config: file, port: '0', dataDir: folder },
      {
        TOLLGATE_BOOTSTRAP_API_KEY: keys.routing,
        TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: keys.management,
        TOLLGATE_ADMIN_TOKEN: keys.admin,
        TOLLGATE_BOOTSTRAP_CREDITS: '1000000000000',
        ...environment,
      },
    );
    const logged: string[] = [];
    const log = createLog((lines) => logged.push(...lines.split(/(?<=\n)/)));
    const tollgate = await build(config, log, workers);
    const store = await openStore(config.database.reveal());
    return new InProcessGateway(tollgate, config, store, folder, logged);
  }

  private constructor(
    tollgate: Tollgate,
    config: Config,
    store: Store,
    folder: string,
    logged: readonly string[],
  ) {
    this.#tollgate = tollgate;
    this.#config = config;
    this.store = store;
    this.folder = folder;
    this.logLines = logged;
    this.url = `http://127.0.0.1:${tollgate.listen()}`;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** Reloads the configuration, as SIGHUP does, with changed limits. */
  reload(limits: Partial<Config['limits']> = {}): void {
    this.#tollgate.reload({ ...this.#config, limits: { ...this.#config.limits, ...limits } });
  }

  async stop(): Promise<void> {
    await this.#tollgate.drain(1);
    await this.store.database.close();
    await rm(this.folder, { recursive: true });
  }

  /** Sends an object as JSON and any other body unchanged. */
  fetch(body: unknown, options: SendOptions = {}): Promise<Response> {
    const path = options.path ?? '/v1/chat/completions';
    const response = fetch(this.url + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${options.key ?? keys.routing}`,
        'content-type': 'application/json',
        ...options.headers,
      },
      body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
      ...(options.signal ? { signal: options.signal } : {}),
    });
    return within(response, `the response to POST ${path}`, answerMsMax);
  }

  async post(body: unknown, options: SendOptions = {}): Promise<Reply> {
    return readReply(await this.fetch(body, options));
  }

  async get(path: string, options: SendOptions = {}): Promise<Reply> {
    const authorization = `Bearer ${options.key ?? keys.routing}`;
    const headers = { authorization, ...options.headers };
    const response = fetch(this.url + path, { headers });
    return readReply(await within(response, `the response to GET ${path}`, answerMsMax));
  }

  /** Reads a stream to its end, even if it ends with an error. */
  async stream(body: object, options: SendOptions = {}): Promise<SseReading> {
    return readSse(await this.fetch({ stream: true, ...body }, options));
  }

  /** Waits for the log row of a request. */
  async record(requestId: string, tenantId = 'default'): Promise<RequestRecord> {
    const credits = `/admin/v1/tenants/${tenantId}/credits`;
    for (let i = 0; i < 100; i += 1) {
      // Reading the credits makes the gateway book all pending settlements.
      await this.get(credits, { key: keys.admin });
      const record = await this.store.requestLog.find(tenantId, requestId);
      if (record) return record;
      await Bun.sleep(20);
    }
    throw new Error(`The request ${requestId} has no log row.`);
  }

  /** Returns the default tenant's balance after all pending settlements have been booked. */
  async balance(): Promise<number> {
    const path = '/admin/v1/tenants/default/credits';
    const { json, text } = await this.get(path, { key: keys.admin });
    if (!isObject(json.data)) throw new Error(`The response has no credits: ${text}`);
    return Number(json.data.total);
  }

  /** Creates a key with a management key. */
  async makeKey(fields: object, key: string = keys.management): Promise<string> {
    const path = '/api/v1/keys';
    return issuedKey(await this.post({ name: 'test', ...fields }, { path, key }));
  }

  /** Creates another tenant and returns its key, which is a routing key by default. */
  async makeTenant(fields: object, keyFields: object = {}): Promise<string> {
    const asAdmin = { key: keys.admin };
    const created = await this.post(fields, { path: '/admin/v1/tenants', ...asAdmin });
    const tenant = isObject(created.json.data) ? String(created.json.data.id) : '';
    await this.post(
      { amount: 1_000_000_000, note: 'test', idempotency_key: 'test' },
      { path: `/admin/v1/tenants/${tenant}/credits`, ...asAdmin },
    );
    const path = `/admin/v1/tenants/${tenant}/keys`;
    return issuedKey(await this.post({ name: 'test', ...keyFields }, { path, ...asAdmin }));
  }
}

function issuedKey(created: Reply): string {
  if (typeof created.json.key !== 'string') throw new Error(`No key was created: ${created.text}`);
  return created.json.key;
}

export async function readReply(response: Response): Promise<Reply> {
  const text = await within(readStreamText(response), `the body from ${response.url}`, answerMsMax);
  const parsed = parseJson(text);
  const json = isObject(parsed) ? parsed : {};
  return {
    status: response.status,
    headers: response.headers,
    text,
    json,
    error: isObject(json.error) ? json.error : {},
    requestId: response.headers.get('x-request-id') ?? '',
  };
}

/** Returns a chat model with all input modalities and features, and these endpoints. */
export function chatModel(id: string, endpoints: readonly object[], more: object = {}): object {
  return {
    id,
    name: id,
    context_length: 128_000,
    input_modalities: ['text', 'image', 'audio', 'file'],
    output_modalities: ['text'],
    features: ['tools', 'json_mode', 'json_schema', 'reasoning'],
    endpoints: endpoints.map((endpoint) => ({ pricing: cheap, ...endpoint })),
    ...more,
  };
}

const cheap = { prompt: '1', completion: '2' };

/** Returns the text of a non-streaming reply. */
export function contentOf(reply: Reply): unknown {
  const choices = Array.isArray(reply.json.choices) ? reply.json.choices : [];
  const [choice] = choices;
  const message: unknown = isObject(choice) ? choice.message : undefined;
  return isObject(message) ? message.content : undefined;
}
