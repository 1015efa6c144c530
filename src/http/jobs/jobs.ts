import { jobDocs, jobStatusSchema, type WebhookSecretObject } from '../../contract/jobs.ts';
import { jobFileBytesMax, jobTextLengthMax } from '../../core/bounds.ts';
import type { Caller } from '../../core/caller.ts';
import type { JobService } from '../../jobs/job-service.ts';
import type { CreatedJob, CreateOnceResult, IdempotentJobRequest } from '../../jobs/jobs.ts';
import type { JobIdempotencyClaim, JobPage } from '../../jobs/queue.ts';
import type { Admission } from '../../limits/admission.ts';
import { type IncomingRequest, readJson, readManagementBody } from '../body/body.ts';
import { readForm } from '../body/multipart.ts';
import { type RejectionDeps, withLoggedRejection } from '../inference/model-call.ts';
import { readLimit, readOffset, readParameter } from '../query.ts';
import type { TenantReadQueue } from '../read-queue.ts';
import { json } from '../reply.ts';
import type { Exchange } from '../routes.ts';
import { type Route, routesFor } from '../routes.ts';

interface JobDeps extends RejectionDeps {
  readonly service: JobService;
  readonly admission: Pick<Admission, 'countRequest' | 'acquire'>;
  /**
   * Creates a job once per `Idempotency-Key`. Returns the ID of a job that an earlier request
   * with the same key created. Throws 409.
   */
  createOnce(
    request: IdempotentJobRequest,
    createJob: (claim: JobIdempotencyClaim) => Promise<CreatedJob>,
  ): Promise<CreateOnceResult>;
  /** The base URL for links; null means the origin of the request. */
  readonly publicUrl: string | null;
  /** The secret that signs a tenant's webhooks. */
  readonly webhookSecrets: {
    show(tenantId: string): Promise<WebhookSecretObject>;
    rotate(tenantId: string, body: unknown): Promise<WebhookSecretObject>;
  };
  /** Limits concurrent lists. */
  readonly listQueue: TenantReadQueue;
}

/** The longest text with every character escaped (12 bytes each), plus the other fields. */
const jsonBytesMax = jobTextLengthMax * 12 + 64 * 1024;

const routing = routesFor({ access: 'routing', scope: 'jobs' });
const management = routesFor({ access: 'management' });

/** Audio jobs, which outlive their request. Another tenant's job gets a 404. */
export function jobRoutes(deps: JobDeps): Route[] {
  return [
    routing.post('/v1/jobs', jobDocs.create, (exchange, caller) => create(exchange, caller, deps)),
    routing.get('/v1/jobs', jobDocs.list, (exchange, { tenantId }) => {
      const page = readJobPage(exchange.query);
      const baseUrl = baseUrlOf(exchange, deps);
      return deps.listQueue.run(tenantId, exchange.request.signal, async () =>
        json(exchange, await deps.service.list(tenantId, page, baseUrl)),
      );
    }),
    routing.get('/v1/jobs/:id', jobDocs.show, async (exchange, { tenantId }) => {
      const baseUrl = baseUrlOf(exchange, deps);
      return json(exchange, await deps.service.show(tenantId, exchange.param('id'), baseUrl));
    }),
    routing.delete('/v1/jobs/:id', jobDocs.cancel, async (exchange, { tenantId }) => {
      const baseUrl = baseUrlOf(exchange, deps);
      return json(exchange, await deps.service.cancel(tenantId, exchange.param('id'), baseUrl));
    }),
    management.get('/api/v1/webhook-secret', jobDocs.secret, async (exchange, { tenantId }) =>
      json(exchange, { data: await deps.webhookSecrets.show(tenantId) }),
    ),
    management.post(
      '/api/v1/webhook-secret/rotate',
      jobDocs.rotateSecret,
      async (exchange, { tenantId }) => {
        const body = await readManagementBody(exchange);
        const data = await deps.webhookSecrets.rotate(tenantId, body);
        exchange.change = { action: 'webhook_secret.rotate', tenant: tenantId };
        return json(exchange, { data });
      },
    ),
  ];
}

function readJobPage(query: URLSearchParams): JobPage {
  return {
    limit: readLimit(query),
    offset: readOffset(query),
    status: readParameter(query, 'status', jobStatusSchema) ?? null,
  };
}

async function create(exchange: Exchange, caller: Caller, deps: JobDeps): Promise<Response> {
  const isForm = /^multipart\//i.test(exchange.request.headers.get('content-type') ?? '');
  const [operationName, read] = isForm
    ? (['transcription', createTranscription] as const)
    : (['speech', createSpeech] as const);
  const createJob = async (incoming: IncomingRequest) => {
    await deps.admission.countRequest(caller, exchange.headers);
    const releaseSlot = await deps.admission.acquire(caller);
    try {
      return await read(exchange, caller, deps, incoming);
    } finally {
      releaseSlot();
    }
  };
  const job = await withLoggedRejection(exchange, caller, operationName, createJob, deps);
  return json(exchange, job, 202);
}

async function createTranscription(
  exchange: Exchange,
  caller: Caller,
  deps: JobDeps,
  incoming: IncomingRequest,
) {
  const { service } = deps;
  const received = await service.receive(caller.tenantId, readForm(incoming, jobFileBytesMax));
  // The same form has different bytes each time it is sent, because its boundary is new.
  const content = {
    fields: Object.fromEntries(received.fields),
    sha256: received.upload?.sha256,
  };
  const baseUrl = baseUrlOf(exchange, deps);
  const createJob: CreateJob = (claim) =>
    service.createTranscription(caller, received, baseUrl, claim);
  let job: CreatedJob | undefined;
  try {
    job = await createJobOnce(exchange, caller, content, createJob, deps);
    return job;
  } finally {
    // The request was rejected, or repeats an earlier one.
    if (job?.id !== received.id) await service.discardForm(received);
  }
}

async function createSpeech(
  exchange: Exchange,
  caller: Caller,
  deps: JobDeps,
  incoming: IncomingRequest,
) {
  const { value } = await readJson(incoming, jsonBytesMax);
  const baseUrl = baseUrlOf(exchange, deps);
  const createJob: CreateJob = (claim) => deps.service.createSpeech(caller, value, baseUrl, claim);
  return createJobOnce(exchange, caller, value, createJob, deps);
}

/** Creates a job. `claim` is null for a request without an `Idempotency-Key`. */
type CreateJob = (claim: JobIdempotencyClaim | null) => Promise<CreatedJob>;

/** Creates a job, or returns the one that an earlier request with the same key created. */
async function createJobOnce(
  exchange: Exchange,
  caller: Caller,
  body: unknown,
  createJob: CreateJob,
  deps: JobDeps,
): Promise<CreatedJob> {
  const { request, requestId, headers } = exchange;
  const key = request.headers.get('idempotency-key');
  if (key === null) return createJob(null);
  const idempotentRequest = { caller, key, body, requestId, clientSignal: request.signal };
  const result = await deps.createOnce(idempotentRequest, createJob);
  if (result.kind === 'created') return result.job;
  headers['idempotent-replayed'] = 'true';
  return deps.service.show(caller.tenantId, result.id, baseUrlOf(exchange, deps));
}

function baseUrlOf({ origin }: Exchange, { publicUrl }: JobDeps): string {
  return publicUrl ?? origin;
}
