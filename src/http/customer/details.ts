import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import { toRequestId } from '../../core/ids.ts';
import { receiptObject } from '../../record/receipt.ts';
import type { RequestLog } from '../../record/request-log.ts';
import { type MonthReads, statementMonths } from '../../record/statement-months.ts';
import type { Exchange } from '../exchange.ts';
import { customerDocs } from '../openapi/customer.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';
import { readMonths } from './query.ts';
import { type CustomerParts, reading } from './reads.ts';

interface DetailParts
  extends Pick<CustomerParts, 'statements' | 'creditsPerUsd' | 'flush' | 'booksNow'> {
  readonly requests: RequestLog;
  readonly months: MonthReads;
}

const either = routesFor({ access: 'either', scope: 'customer' });

/** The details behind a row of the log, or a month. */
export function detailRoutes(parts: DetailParts): Route[] {
  return [
    either.get('/v1/customer/logs/:id', customerDocs.receipt, reading(parts, showReceipt)),
    either.get(
      '/v1/customer/billing/statements',
      customerDocs.statements,
      reading(parts, listStatements),
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
  return json(exchange, { data: await statementMonths(parts, tenantId, count, parts.booksNow()) });
}
