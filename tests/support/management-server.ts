import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateAdminToken, hashKey } from '../../src/auth/api-key.ts';
import { Authenticator } from '../../src/auth/authenticate.ts';
import type { Spending } from '../../src/auth/management/keys.ts';
import { createKey, type KeyService } from '../../src/auth/management/keys.ts';
import { createTenant, type TenantService } from '../../src/auth/management/tenants.ts';
import { isObject, parseJson } from '../../src/core/json.ts';
import { adminRoutes } from '../../src/http/management/admin.ts';
import { keyRoutes, tenantKeyRoutes } from '../../src/http/management/keys.ts';
import type { Method } from '../../src/http/routes.ts';
import { HttpServer } from '../../src/http/server.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { createLog } from '../../src/telemetry/log.ts';

// Serves the management routes on a real socket with a SQLite file and a clock set by the test.

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body's `data`, or its `error`. */
  readonly data: Record<string, unknown>;
  readonly list: readonly Record<string, unknown>[];
  /** The secret of the key that was created. */
  readonly key: string;
}

export interface Call {
  readonly key?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export class ManagementServer {
  /** A Sunday, the last day of its week, in the middle of a month. */
  time = Date.UTC(2026, 10, 15, 12);
  readonly spent = new Map<string, Spending>();
  readonly service: KeyService & TenantService;
  readonly store: Store;
  readonly authenticator: Authenticator;
  readonly adminToken = generateAdminToken();
  readonly logged: string[] = [];
  readonly #server: HttpServer;
  readonly #origin: string;
  readonly #folder: string;

  static async start(): Promise<ManagementServer> {
    const folder = await mkdtemp(join(tmpdir(), 'tollgate-management-'));
    const rig = new ManagementServer(folder, await openStore(`sqlite:${join(folder, 'test.db')}`));
    await rig.store.directory.setAdminTokenHash(hashKey(rig.adminToken));
    return rig;
  }

  private constructor(folder: string, store: Store) {
    this.#folder = folder;
    this.store = store;
    const now = () => this.time;
    const spending = { spent: async () => this.spent };
    this.service = { directory: store.directory, spending, now, plans: () => ['pro'] };
    const overview = async () => ({
      tenants: 2,
      keys: 3,
      balance: { balance: 700, leased: 300, held: 200 },
      version: '1.2.3',
      uptimeSeconds: 60,
      database: 'sqlite' as const,
      configuration: { source: 'tollgate.yaml', version: 0, applied_version: 0, problems: [] },
    });
    const deps = {
      ...this.service,
      creditsPerUsd: 1_000_000,
      requestsPerMinute: 600,
      applyChanges: async () => {
        this.authenticator.forget();
      },
      credits: store.creditStore,
      sums: store.tenantSums,
      settled: <T>(read: () => Promise<T>) => read(),
      overview,
    };
    this.authenticator = new Authenticator(store.directory, now);
    this.#server = new HttpServer({
      routes: [...keyRoutes(deps), ...tenantKeyRoutes(deps), ...adminRoutes(deps)],
      authenticator: this.authenticator,
      log: createLog((line) => this.logged.push(line)),
    });
    this.#origin = `http://127.0.0.1:${this.#server.listen('127.0.0.1', 0)}`;
  }

  async stop(): Promise<void> {
    await this.#server.drain(1);
    await this.store.database.close();
    await rm(this.#folder, { recursive: true });
  }

  /** Adds a tenant with a management key and a routing key. */
  async addTenant(id: string, more: object = {}): Promise<{ manager: string; app: string }> {
    await createTenant(this.service, { id, name: id, ...more });
    const manager = await createKey(this.service, id, { name: 'manager', management: true });
    const app = await createKey(this.service, id, { name: 'app' });
    return { manager: manager.text, app: app.text };
  }

  async call(method: Method, path: string, { key, body, headers }: Call = {}): Promise<Answer> {
    const response = await fetch(this.#origin + path, {
      method,
      headers: { ...(key === undefined ? {} : { authorization: `Bearer ${key}` }), ...headers },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const parsed = parseJson(text);
    const outer = isObject(parsed) ? parsed : {};
    const inner = outer.data ?? outer.error;
    return {
      status: response.status,
      headers: response.headers,
      text,
      data: isObject(inner) ? inner : outer,
      list: Array.isArray(inner) ? inner.filter(isObject) : [],
      key: typeof outer.key === 'string' ? outer.key : '',
    };
  }

  /** Applies changes made by other processes, as the poll does. */
  noticeChanges(): void {
    this.authenticator.forget();
  }
}
