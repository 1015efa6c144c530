import { jobFileBytesMax, jobTextLengthMax } from '../../core/bounds.ts';
import type { Caller } from '../../core/caller.ts';
import type { JobDesk } from '../../jobs/desk.ts';
import type { JobClaim } from '../../jobs/queue.ts';
import type { Admission } from '../../limits/admit.ts';
import { type Posted, readJson } from '../body/body.ts';
import { readForm } from '../body/multipart.ts';
import { loggingRefusal, type RefusalParts } from '../calls/model-call.ts';
import type { Exchange } from '../exchange.ts';
import { jobDocs } from '../openapi/jobs.ts';
import type { ReadTurns } from '../read-turns.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';
import { readJobPage } from './query.ts';

interface JobParts extends RefusalParts {
  readonly desk: JobDesk;
  readonly admission: Pick<Admission, 'countRequest' | 'enter'>;
  /** Makes a job once for an `Idempotency-Key`; returns the id of one that was made before. 409 */
  once(use: OnceUse, make: (claim: JobClaim) => Promise<JobMade>): Promise<JobMade | string>;
  /** Where clients reach this gateway; null: at the address that this client used. */
  readonly publicUrl: string | null;
  webhookSecretOf(tenantId: string): string;
  /** Of lists of jobs. */
  readonly turns: ReadTurns;
}

/** A request to make a job under an `Idempotency-Key`. */
export interface OnceUse {
  readonly caller: Caller;
  readonly key: string;
  /** What tells this request from another one under the same key. */
  readonly body: unknown;
  readonly requestId: string;
  readonly client: AbortSignal;
}

export interface JobMade {
  readonly id: string;
}

/** A text of the longest kind with every character escaped (twelve bytes), and its other fields. */
const jsonBytesMax = jobTextLengthMax * 12 + 64 * 1024;

const routing = routesFor({ access: 'routing', scope: 'jobs' });
const management = routesFor({ access: 'management' });

/** Audio work that outlives its request. Another tenant's job is treated as if it did not exist. */
export function jobRoutes(parts: JobParts): Route[] {
  return [
    routing.post('/v1/jobs', jobDocs.create, (exchange, caller) => create(exchange, caller, parts)),
    routing.get('/v1/jobs', jobDocs.list, (exchange, { tenantId }) => {
      const page = readJobPage(exchange.query);
      const base = baseUrlOf(exchange, parts);
      return parts.turns.inTurn(tenantId, exchange.request.signal, async () =>
        json(exchange, await parts.desk.list(tenantId, page, base)),
      );
    }),
    routing.get('/v1/jobs/:id', jobDocs.show, async (exchange, { tenantId }) => {
      const base = baseUrlOf(exchange, parts);
      return json(exchange, await parts.desk.show(tenantId, exchange.param('id'), base));
    }),
    routing.delete('/v1/jobs/:id', jobDocs.cancel, async (exchange, { tenantId }) => {
      const base = baseUrlOf(exchange, parts);
      return json(exchange, await parts.desk.cancel(tenantId, exchange.param('id'), base));
    }),
    management.get('/api/v1/webhook-secret', jobDocs.secret, (exchange, { tenantId }) =>
      json(exchange, { data: { secret: parts.webhookSecretOf(tenantId) } }),
    ),
  ];
}

async function create(exchange: Exchange, caller: Caller, parts: JobParts): Promise<Response> {
  const isForm = /^multipart\//i.test(exchange.request.headers.get('content-type') ?? '');
  const [operation, read] = isForm
    ? (['transcription', transcription] as const)
    : (['speech', speech] as const);
  const make = async (posted: Posted) => {
    await parts.admission.countRequest(caller, exchange.headers);
    const leave = await parts.admission.enter(caller);
    try {
      return await read(exchange, caller, parts, posted);
    } finally {
      leave();
    }
  };
  const job = await loggingRefusal(exchange, caller, operation, make, parts);
  return json(exchange, job, 202);
}

async function transcription(exchange: Exchange, caller: Caller, parts: JobParts, posted: Posted) {
  const { desk } = parts;
  const received = await desk.receive(caller.tenantId, readForm(posted, jobFileBytesMax));
  // Not the bytes of the body: each sending of the same form has a boundary of its own.
  const content = {
    fields: Object.fromEntries(received.fields),
    sha256: received.upload?.sha256,
  };
  const base = baseUrlOf(exchange, parts);
  const make: MakeJob = (claim) => desk.createTranscription(caller, received, base, claim);
  let job: JobMade | undefined;
  try {
    job = await once(exchange, caller, content, make, parts);
    return job;
  } finally {
    // The request was refused, or repeats an earlier one.
    if (job?.id !== received.id) await desk.putAway(received);
  }
}

async function speech(exchange: Exchange, caller: Caller, parts: JobParts, posted: Posted) {
  const { value } = await readJson(posted, jsonBytesMax);
  const base = baseUrlOf(exchange, parts);
  const make: MakeJob = (claim) => parts.desk.createSpeech(caller, value, base, claim);
  return once(exchange, caller, value, make, parts);
}

/** Makes a job; `claim` belongs to the `Idempotency-Key` of its request, if it has one. */
type MakeJob = (claim: JobClaim | null) => Promise<JobMade>;

/** The job that `make` makes, or the one that an earlier request with the same key has made. */
async function once(
  exchange: Exchange,
  caller: Caller,
  body: unknown,
  make: MakeJob,
  parts: JobParts,
): Promise<JobMade> {
  const { request, requestId, headers } = exchange;
  const key = request.headers.get('idempotency-key');
  if (key === null) return make(null);
  const use = { caller, key, body, requestId, client: request.signal };
  const job = await parts.once(use, make);
  if (typeof job !== 'string') return job;
  headers['idempotent-replayed'] = 'true';
  return parts.desk.show(caller.tenantId, job, baseUrlOf(exchange, parts));
}

function baseUrlOf({ origin }: Exchange, { publicUrl }: JobParts): string {
  return publicUrl ?? origin;
}
