import {
  type AuditListObject,
  auditDocs,
  auditFilterQuery,
  beforeSchema,
} from '../../contract/audit.ts';
import {
  type AuditFilter,
  type AuditReads,
  auditCells,
  auditColumns,
  auditObject,
  auditPages,
} from '../../control/audit.ts';
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
      const body: AuditListObject = { data: page.map(auditObject), next_before: last?.id ?? null };
      return json(exchange, body);
    }),
    admin.get('/admin/v1/audit/export.csv', auditDocs.csv, (exchange) => {
      const pages = auditPages(reads, filterOf(exchange.query));
      return csvReply(exchange, 'audit.csv', csvTable(auditColumns, pages, auditCells));
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
