import { jobDocs, readJobPage } from '../../contract/jobs.ts';
import { jobFileBytesMax, jobTextLengthMax } from '../../core/bounds.ts';
import type { Caller } from '../../core/caller.ts';
import type { JobService } from '../../jobs/job-service.ts';
import type { CreatedJob, IdempotentJobRequest } from '../../jobs/jobs.ts';
import type { JobIdempotencyClaim } from '../../jobs/queue.ts';
import type { Admission } from '../../limits/admission.ts';
import { type IncomingRequest, readJson } from '../body/body.ts';
import { readForm } from '../body/multipart.ts';
import { type RefusalDeps, withLoggedRefusal } from '../inference/model-call.ts';
import type { TenantReadQueue } from '../read-queue.ts';
import { json } from '../reply.ts';
import type { Exchange } from '../routes.ts';
import { type Route, routesFor } from '../routes.ts';

interface JobDeps extends RefusalDeps {
  readonly service: JobService;
  readonly admission: Pick<Admission, 'countRequest' | 'enter'>;
  /** Makes a job once for an `Idempotency-Key`; returns the id of one that was made before. 409 */
  createOnce(
    request: IdempotentJobRequest,
    createJob: (claim: JobIdempotencyClaim) => Promise<CreatedJob>,
  ): Promise<CreatedJob | string>;
  /** Where clients reach this gateway; null: at the address that this client used. */
  readonly publicUrl: string | null;
  webhookSecretOf(tenantId: string): string;
  /** Of lists of jobs. */
  readonly listQueue: TenantReadQueue;
}

/** A text of the longest kind with every character escaped (twelve bytes), and its other fields. */
const jsonBytesMax = jobTextLengthMax * 12 + 64 * 1024;

const routing = routesFor({ access: 'routing', scope: 'jobs' });
const management = routesFor({ access: 'management' });

/** Audio work that outlives its request. Another tenant's job is treated as if it did not exist. */
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
    management.get('/api/v1/webhook-secret', jobDocs.secret, (exchange, { tenantId }) =>
      json(exchange, { data: { secret: deps.webhookSecretOf(tenantId) } }),
    ),
  ];
}

async function create(exchange: Exchange, caller: Caller, deps: JobDeps): Promise<Response> {
  const isForm = /^multipart\//i.test(exchange.request.headers.get('content-type') ?? '');
  const [operationName, read] = isForm
    ? (['transcription', createTranscription] as const)
    : (['speech', createSpeech] as const);
  const createJob = async (incoming: IncomingRequest) => {
    await deps.admission.countRequest(caller, exchange.headers);
    const releaseSlot = await deps.admission.enter(caller);
    try {
      return await read(exchange, caller, deps, incoming);
    } finally {
      releaseSlot();
    }
  };
  const job = await withLoggedRefusal(exchange, caller, operationName, createJob, deps);
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
  // Not the bytes of the body: each sending of the same form has a boundary of its own.
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
    // The request was refused, or repeats an earlier one.
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

/** Makes a job; `claim` belongs to the `Idempotency-Key` of its request, if it has one. */
type CreateJob = (claim: JobIdempotencyClaim | null) => Promise<CreatedJob>;

/** The job that `make` makes, or the one that an earlier request with the same key has made. */
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
  const idempotentRequest = { caller, key, body, requestId, client: request.signal };
  const job = await deps.createOnce(idempotentRequest, createJob);
  if (typeof job !== 'string') return job;
  headers['idempotent-replayed'] = 'true';
  return deps.service.show(caller.tenantId, job, baseUrlOf(exchange, deps));
}

function baseUrlOf({ origin }: Exchange, { publicUrl }: JobDeps): string {
  return publicUrl ?? origin;
}
