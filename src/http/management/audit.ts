import {
  type AuditEntryObject,
  type AuditListObject,
  auditDocs,
  auditFilterQuery,
  beforeSchema,
} from '../../contract/audit.ts';
import type { AuditEntry, AuditFilter, AuditReads } from '../../control/audit.ts';
import { csvTable } from '../../records/csv.ts';
import { readPeriod } from '../../records/period.ts';
import { csvReply } from '../customer/csv.ts';
import { datesOf } from '../customer/query.ts';
import { readLimit, readParameter } from '../query.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';

const admin = routesFor({ access: 'admin' });

export function auditRoutes(reads: AuditReads): Route[] {
  return [
    admin.get('/admin/v1/audit', auditDocs.list, async (exchange) => {
      const { query } = exchange;
      const limit = readLimit(query);
      const before = readParameter(query, 'before', beforeSchema) ?? null;
      // One more shows whether there is another page.
      const entries = await reads.list(filterOf(query), before, limit + 1);
      const page = entries.slice(0, limit);
      const last = entries.length > limit ? page.at(-1) : undefined;
      const body: AuditListObject = { data: page.map(entryObject), next_before: last?.id ?? null };
      return json(exchange, body);
    }),
    admin.get('/admin/v1/audit/export.csv', auditDocs.csv, (exchange) => {
      const pages = pagesOf(reads, filterOf(exchange.query));
      return csvReply(exchange, 'audit.csv', csvTable(columns, pages, cellsOf));
    }),
  ];
}

function filterOf(query: URLSearchParams): AuditFilter {
  return {
    ...readPeriod(datesOf(query)),
    action: readParameter(query, 'action', auditFilterQuery.action) ?? null,
    actor: readParameter(query, 'actor', auditFilterQuery.actor) ?? null,
    tenantId: readParameter(query, 'tenant_id', auditFilterQuery.tenant_id) ?? null,
    target: readParameter(query, 'target', auditFilterQuery.target) ?? null,
  };
}

function entryObject(entry: AuditEntry): AuditEntryObject {
  return {
    id: entry.id,
    created_at: new Date(entry.createdAt).toISOString(),
    actor: entry.actor,
    origin: entry.origin,
    address: entry.address,
    request_id: entry.requestId,
    action: entry.action,
    tenant_id: entry.tenantId,
    target: entry.target,
    before: entry.before,
    after: entry.after,
  };
}

const rowsPerPage = 500;

async function* pagesOf(reads: AuditReads, filter: AuditFilter) {
  for (let before: number | null = null; ; ) {
    const page: readonly AuditEntry[] = await reads.list(filter, before, rowsPerPage);
    yield page;
    const last = page.at(-1);
    if (!last || page.length < rowsPerPage) return;
    before = last.id;
  }
}

const columns = [
  'id',
  'created_at',
  'actor',
  'origin',
  'address',
  'request_id',
  'action',
  'tenant_id',
  'target',
  'before',
  'after',
] as const;

function cellsOf(entry: AuditEntry) {
  const { before, after, ...rest } = entryObject(entry);
  const jsonOf = (state: unknown) => (state === null ? null : JSON.stringify(state));
  const cells = { ...rest, before: jsonOf(before), after: jsonOf(after) };
  return columns.map((column) => cells[column]);
}
