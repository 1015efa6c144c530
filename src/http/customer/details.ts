import { type Caller, mayUseModel } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import { toRequestId } from '../../core/ids.ts';
import { receiptObject } from '../../record/receipt.ts';
import type { RequestLog } from '../../record/request-log.ts';
import type { StatementReads } from '../../record/statement.ts';
import { type MonthReads, statementMonths } from '../../record/statement-months.ts';
import type { CatalogueOf, Offer } from '../../route/catalogue.ts';
import type { Health } from '../../route/health.ts';
import type { Exchange } from '../exchange.ts';
import { customerDocs } from '../openapi/customer.ts';
import { modelDocs } from '../openapi/models.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';
import { readMonths } from './query.ts';
import { reading } from './reads.ts';

interface DetailParts {
  readonly requests: RequestLog;
  readonly statements: StatementReads;
  readonly months: MonthReads;
  readonly catalogueOf: CatalogueOf;
  readonly health: Pick<Health, 'state' | 'observed'>;
  readonly creditsPerUsd: number;
  /** Makes every request that has ended readable. */
  flush(): Promise<void>;
  now(): number;
}

const either = routesFor({ access: 'either', scope: 'customer' });
const unscoped = routesFor({ access: 'either' });

/** The details behind a row of the log, a month or a model. */
export function detailRoutes(parts: DetailParts): Route[] {
  return [
    either.get('/v1/customer/logs/:id', customerDocs.receipt, reading(parts, showReceipt)),
    either.get(
      '/v1/customer/billing/statements',
      customerDocs.statements,
      reading(parts, listStatements),
    ),
    unscoped.get('/v1/customer/models', modelDocs.endpoints, (exchange, caller) =>
      listEndpoints(parts, exchange, caller),
    ),
  ];
}

async function showReceipt(
  { requests, creditsPerUsd }: DetailParts,
  exchange: Exchange,
  caller: Caller,
) {
  const record = await requests.find(caller.tenantId, toRequestId(exchange.param('id')));
  if (!record) throw notFound('There is no request with this id.', 'id');
  return json(exchange, { data: receiptObject(record, creditsPerUsd) });
}

async function listStatements(parts: DetailParts, exchange: Exchange, { tenantId }: Caller) {
  const count = readMonths(exchange.query);
  return json(exchange, { data: await statementMonths(parts, tenantId, count, parts.now()) });
}

/** Each model that this key could call, with every place that serves it. */
async function listEndpoints(parts: DetailParts, exchange: Exchange, caller: Caller) {
  const catalogue = await parts.catalogueOf(caller.tenantId);
  const models = catalogue.live().filter(({ id }) => mayUseModel(caller, id));
  const data = models.map(({ id }) => ({
    id,
    endpoints: catalogue.offers(id).map((offer) => endpointObject(offer, parts)),
  }));
  return json(exchange, { data });
}

/** Never what the provider calls the model. */
function endpointObject(offer: Offer, { health }: DetailParts) {
  const { firstByteMs, tokensPerSecond } = health.observed(offer);
  const { long_prompts, ...pricing } = offer.pricing;
  return {
    provider: offer.provider.name,
    priority: offer.priority,
    traffic_mode: offer.own ? 'byok' : 'shared',
    pricing,
    long_prompts,
    circuit: health.state(offer),
    first_byte_ms: firstByteMs,
    tokens_per_second: tokensPerSecond,
  };
}
