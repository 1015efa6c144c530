/** Serves the job routes on a real socket. Its worker runs only when a test calls it. */

import { hashKey } from '../../src/auth/api-key.ts';
import { Authenticator } from '../../src/auth/authenticate.ts';
import { firstStart } from '../../src/auth/first-start.ts';
import { Secret } from '../../src/core/secret.ts';
import { noUsage } from '../../src/core/usage.ts';
import { jobRoutes } from '../../src/http/jobs/jobs.ts';
import { objectRoutes } from '../../src/http/jobs/object-routes.ts';
import { TenantReadQueue } from '../../src/http/read-queue.ts';
import { HttpServer } from '../../src/http/server.ts';
import { WebhookSigner } from '../../src/jobs/webhook-signer.ts';
import { FairShareBudget } from '../../src/limits/memory-budget.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { makeKey } from '../contracts/engines.ts';
import { type Reply, readReply } from './in-process.ts';
import { JobHarness } from './job-harness.ts';

const routing = 'sk-tg-jobs-0123456789abcdef0123456789abcd';
/** A key of a second tenant. */
const otherTenant = 'sk-tg-stranger-0123456789abcdef012345678';

export class JobServer {
  readonly keys = { routing, otherTenant };
  readonly harness: JobHarness;
  readonly url: string;
  readonly logLines: string[] = [];
  /** The key of each request that was counted against limits. */
  readonly counted: string[] = [];
  readonly #server: HttpServer;

  static async start(): Promise<JobServer> {
    const harness = await JobHarness.open();
    const { directory } = harness.store;
    await firstStart(
      { apiKey: new Secret(routing), managementKey: null, adminToken: null, credits: 0 },
      { directory, grantOnce: async () => {}, now: harness.now },
    );
    const other = await harness.newCaller();
    const open = { scopes: null, models: null, expiresAt: null };
    await directory.addKey(makeKey(other.tenantId, open), hashKey(otherTenant));
    return new JobServer(harness);
  }

  private constructor(harness: JobHarness) {
    this.harness = harness;
    const rotations = harness.store.jobs.webhookRotations;
    const signer = new WebhookSigner([new Secret('a secret of the operator')], rotations);
    this.#server = new HttpServer({
      routes: [
        ...jobRoutes({
          service: harness.service,
          publicUrl: null,
          admission: {
            countRequest: ({ keyId }, headers) => {
              this.counted.push(keyId);
              headers['x-ratelimit-limit'] = '600';
            },
            acquire: () => () => undefined,
          },
          webhookSecrets: {
            show: (tenantId) => signer.show(tenantId, harness.now),
            rotate: (tenantId, body) => signer.rotate(tenantId, body, harness.now),
          },
          listQueue: new TenantReadQueue(),
          createOnce: async ({ caller: { tenantId }, key, requestId }, createJob) => {
            const answerExpiresAt = harness.now + 86_400_000;
            const claim = { tenantId, key, requestId, fingerprint: '', answerExpiresAt };
            return { kind: 'created', job: await createJob(claim) };
          },
          stages: { settle: async () => ({ usage: noUsage, costCredits: 0 }) },
          bodyMemoryBudget: new FairShareBudget(Number.POSITIVE_INFINITY, ''),
          mapError: () => undefined,
        }),
        ...objectRoutes({
          open: (key) => harness.storage.open(key),
          isAvailable: (key) => harness.store.jobs.objects.isAvailable(key),
          isValidLink: (key, query) => harness.links.isValid(key, query, harness.now),
        }),
      ],
      authenticator: new Authenticator(harness.store.directory),
      log: createLog((line) => this.logLines.push(line)),
    });
    this.url = `http://127.0.0.1:${this.#server.listen('127.0.0.1', 0)}`;
  }

  async stop(): Promise<void> {
    await this.#server.drain(1);
    await this.harness.close();
  }

  async send(method: string, path: string, init: RequestInit = {}, key = routing): Promise<Reply> {
    const headers = { authorization: `Bearer ${key}`, ...init.headers };
    return readReply(await fetch(this.url + path, { ...init, method, headers }));
  }

  post(body: unknown, key?: string): Promise<Reply> {
    const headers = { 'content-type': 'application/json' };
    return this.send('POST', '/v1/jobs', { body: JSON.stringify(body), headers }, key);
  }

  postForm(form: FormData, key?: string): Promise<Reply> {
    return this.send('POST', '/v1/jobs', { body: form }, key);
  }

  /** Runs all waiting jobs. */
  runJobs(): Promise<void> {
    return this.harness.runJobs();
  }
}
