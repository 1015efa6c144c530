/** Starts a gateway for transcription jobs with a fake provider and a queue that can stall. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { firstStart } from '../../src/auth/first-start.ts';
import { configure } from '../../src/compose/configure.ts';
import { openServices } from '../../src/compose/shared-services.ts';
import { loadConfig } from '../../src/config/load.ts';
import { HttpServer } from '../../src/http/server.ts';
import { Jobs } from '../../src/jobs/jobs.ts';
import type { JobQueue } from '../../src/jobs/queue.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { secretKeysOf } from '../../src/store/secret-key.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { wavFile } from './audio-files.ts';
import { chatModel, type Reply, readReply } from './in-process.ts';

export const jobGatewayKeys = {
  routing: 'sk-tg-jobstory-0123456789abcdef012345678',
  management: 'sk-mgmt-jobstory-0123456789abcdef0123456',
};

/** 20 seconds at $0.00006 per minute are 20 millionths of a dollar: 20 credits. */
export const transcriptionReply = () => Response.json({ text: 'Heard.', duration: 20 });

export interface JobGateway {
  readonly url: string;
  readonly store: Store;
  readonly jobs: Jobs;
  stop(): Promise<void>;
}

/** `stallAt` is a queue method that never returns. The test kills the process at this point. */
export async function startJobGateway(
  folder: string,
  upstreamUrl: string,
  stallAt?: keyof JobQueue,
  onStall = () => {},
): Promise<JobGateway> {
  const config = configIn(folder, upstreamUrl);
  const opened = await openStore(config.database.reveal());
  const queue = stallAt ? stalling(opened.jobs.queue, stallAt, onStall) : opened.jobs.queue;
  const store: Store = { ...opened, jobs: { ...opened.jobs, queue } };
  const grantOnce = async (tenantId: string, amount: number) => {
    const change = { tenantId, amount, note: '', idempotencyKey: 'first', now: Date.now() };
    await store.creditStore.change(change);
  };
  await firstStart(config.bootstrap, { directory: store.directory, grantOnce, now: Date.now() });
  const log = createLog(() => undefined);
  const services = await openServices(config, store, log, { worker: null, workerCount: 1 });
  const jobs = new Jobs({
    ...services,
    ...{ config, secrets: secretKeysOf(config), log },
  });
  const { routes } = configure(config, { ...services, jobs }, () => false);
  const server = new HttpServer({ routes, authenticator: services.authenticator, log });
  return {
    url: `http://127.0.0.1:${server.listen('127.0.0.1', 0)}`,
    store,
    jobs,
    async stop() {
      await server.drain(1);
      await jobs.stop(1);
      await services.accounting.close();
      await services.telemetry.stop();
      await store.database.close();
    },
  };
}

function configIn(folder: string, upstreamUrl: string) {
  const file = join(folder, 'tollgate.json');
  const provider = { dialect: 'openai', base_url: `${upstreamUrl}v1`, api_key: 'sk-upstream' };
  const pricing = { minute: '0.00006' };
  const endpoint = { provider: 'acme', model: 'upstream-name', pricing };
  const model = chatModel('acme/hear', [endpoint], { features: ['transcription'] });
  const settings = { catalogue: 'none', demo: false, providers: { acme: provider } };
  writeFileSync(file, JSON.stringify({ ...settings, models: [model] }));
  return loadConfig(
    { config: file, port: '0', dataDir: folder },
    {
      TOLLGATE_BOOTSTRAP_API_KEY: jobGatewayKeys.routing,
      TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: jobGatewayKeys.management,
    },
  );
}

/** Wraps a queue so that one of its methods never returns. */
export function stalling(queue: JobQueue, stallAt: keyof JobQueue, onStall: () => void): JobQueue {
  const stalled = () => {
    onStall();
    return new Promise<never>(() => {});
  };
  return {
    claim: (claim) => queue.claim(claim),
    renew: (lease, until) => queue.renew(lease, until),
    isCanceled: (jobId) => queue.isCanceled(jobId),
    release: (lease, requeue) => queue.release(lease, requeue),
    pieces: (jobId) => queue.pieces(jobId),
    setPieces: (lease, total) => queue.setPieces(lease, total),
    addPiece: (lease, piece) => queue.addPiece(lease, piece),
    addLateUnits: (jobId, units) => queue.addLateUnits(jobId, units),
    finish: (lease, outcome) => queue.finish(lease, outcome),
    [stallAt]: stalled,
  };
}

export async function sendToJobGateway(
  { url }: Pick<JobGateway, 'url'>,
  method: string,
  path: string,
  body?: FormData,
  key = jobGatewayKeys.routing,
): Promise<Reply> {
  const headers = { authorization: `Bearer ${key}` };
  return readReply(await fetch(url + path, { method, headers, ...(body ? { body } : {}) }));
}

/** Creates a job for a short recording and returns its ID. */
export async function createTranscriptionJob(gateway: Pick<JobGateway, 'url'>): Promise<string> {
  const form = new FormData();
  form.set('model', 'acme/hear');
  form.set('file', new File([wavFile(2).slice()], 'a.wav'));
  const created = await sendToJobGateway(gateway, 'POST', '/v1/jobs', form);
  if (created.status !== 202) throw new Error(`The job wasn't created: ${created.text}`);
  return String(created.json.id);
}
