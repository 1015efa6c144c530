/**
 * A whole gateway on a real socket in front of the scripted upstream, for suites that speak to it
 * with the official SDKs.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/load.ts';
import { isObject } from '../../src/core/json.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { build, type Tollgate } from '../../src/wire.ts';
import { type BookEntry, type FakeUpstream, startFakeUpstream } from '../support/fake-upstream.ts';

/** One credit per prompt token and two per completion token: sums that a reader can check. */
const pricing = { prompt: '1', completion: '2' };

export const upstreamModel = 'large-fp8';
export const upstreamSecret = 'upstream-account-secret';

const apiKey = `sk-tg-${'a'.repeat(40)}`;
const managementKey = `sk-mgmt-${'m'.repeat(40)}`;
const adminToken = `sk-admin-${'o'.repeat(40)}`;

export class Rig {
  readonly upstream: FakeUpstream;
  /** Without a path. */
  readonly origin: string;
  readonly apiKey = apiKey;
  readonly managementKey = managementKey;
  /** What the fake answers to. */
  readonly model = 'acme/large';
  readonly #tollgate: Tollgate;
  readonly #folder: string;

  static async start(): Promise<Rig> {
    const upstream = startFakeUpstream();
    const folder = await mkdtemp(join(tmpdir(), 'tollgate-sdk-'));
    const file = join(folder, 'tollgate.yaml');
    // JSON is YAML.
    await Bun.write(file, JSON.stringify(settings(upstream, folder)));
    const config = loadConfig(
      { config: file },
      {
        TOLLGATE_BOOTSTRAP_API_KEY: apiKey,
        TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: managementKey,
        TOLLGATE_ADMIN_TOKEN: adminToken,
      },
    );
    const silent = createLog((l) => process.stderr.write(l.slice(0,600)));
    return new Rig(upstream, folder, await build(config, silent));
  }

  private constructor(upstream: FakeUpstream, folder: string, tollgate: Tollgate) {
    this.upstream = upstream;
    this.#folder = folder;
    this.#tollgate = tollgate;
    this.origin = `http://127.0.0.1:${tollgate.listen()}`;
  }

  async stop(): Promise<void> {
    await this.#tollgate.drain(1);
    this.upstream.stop();
    await rm(this.#folder, { recursive: true });
  }

  /** A routing key with the wished limits. */
  async makeKey(wishes: object): Promise<string> {
    const body = { name: 'made for a test', ...wishes };
    return secretIn(await this.#manage('/api/v1/keys', managementKey, body));
  }

  /** A key of a tenant of its own. */
  async makeTenantKey(tenant: { id: string; concurrent_requests?: number }): Promise<string> {
    await this.#manage('/admin/v1/tenants', adminToken, { name: tenant.id, ...tenant });
    const credits = { amount: 1_000_000, note: 'test', idempotency_key: 'test' };
    await this.#manage(`/admin/v1/tenants/${tenant.id}/credits`, adminToken, credits);
    const keys = `/admin/v1/tenants/${tenant.id}/keys`;
    return secretIn(await this.#manage(keys, adminToken, { name: 'app' }));
  }

  /** What `/v1/generation` says about a request, by either of its ids. */
  async generation(id: string | null | undefined): Promise<Record<string, unknown>> {
    const response = await fetch(`${this.origin}/v1/generation?id=${id}`, {
      headers: { authorization: `Bearer ${apiKey}` },
    });
    const body: unknown = await response.json();
    return isObject(body) && isObject(body.data) ? body.data : {};
  }

  /** The last request that reached the upstream. */
  get lastAsked(): BookEntry {
    const entry = this.upstream.book.at(-1);
    if (!entry) throw new Error('nothing has reached the upstream');
    return entry;
  }

  /** The last request's body as the upstream read it. */
  get lastBody(): Record<string, unknown> {
    const { json } = this.lastAsked;
    if (!isObject(json)) throw new Error('the upstream was sent no JSON object');
    return json;
  }

  async #manage(path: string, key: string, body: object): Promise<unknown> {
    const response = await fetch(this.origin + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
    return response.json();
  }
}

function settings(upstream: FakeUpstream, folder: string) {
  return {
    server: { port: 0 },
    data_dir: folder,
    catalogue: 'none',
    demo: true,
    providers: {
      fake: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: upstreamSecret },
    },
    models: [
      {
        id: 'acme/large',
        name: 'Acme Large',
        context_length: 128_000,
        max_completion_tokens: 16_384,
        input_modalities: ['text', 'image'],
        output_modalities: ['text'],
        features: ['tools', 'json_mode', 'json_schema', 'reasoning'],
        endpoints: [{ provider: 'fake', model: upstreamModel, pricing }],
      },
      {
        id: 'acme/plain',
        name: 'Acme Plain',
        input_modalities: ['text'],
        output_modalities: ['text'],
        features: [],
        endpoints: [{ provider: 'fake', model: 'plain', pricing }],
      },
    ],
  };
}

function secretIn(answer: unknown): string {
  if (!isObject(answer) || typeof answer.key !== 'string') throw new Error('no key was made');
  return answer.key;
}

/** Runs what must fail and gives back its error. */
export async function failure(of: Promise<unknown>): Promise<unknown> {
  try {
    await of;
  } catch (thrown) {
    return thrown;
  }
  throw new Error('this should have failed');
}

/** On the clock of the upstream's book. */
export function clock(): number {
  return performance.timeOrigin + performance.now();
}

/** How long after `leftAt` the upstream saw its client go. */
export async function hangUpMs({ upstream }: Rig, leftAt: number): Promise<number> {
  const entry = await upstream.until((book) => book.find((one) => one.outcome === 'client-left'));
  return (entry.finishedAt ?? Number.POSITIVE_INFINITY) - leftAt;
}

/** A PNG of one pixel, as clients send images. */
export const onePixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
