import { Type } from 'typebox';
import { type TenantPage, tenantSorts } from '../auth/directory.ts';
import { creditChangeSchema, entriesPerPage } from '../auth/management/credits.ts';
import { lineField } from '../auth/management/field-schemas.ts';
import { newTenantSchema, tenantChangeSchema, tenantsPerPage } from '../auth/management/tenants.ts';
import { nullable, oneOf } from '../core/schema.ts';
import { daysOf, monthAround } from '../records/period.ts';
import { issuedKey, newKeyBody } from './keys.ts';
import { circuit } from './models.ts';
import { offsetQuery, readOffset, readParameter } from './query.ts';
import {
  count,
  credits,
  data,
  inlineRecord,
  named,
  type RouteDoc,
  record,
  text,
  time,
} from './route-doc.ts';

/** The query parameters of operators' reads. */

const searchSchema = lineField(0, 200);
const sortSchema = Type.Enum([...tenantSorts], {
  description: 'What comes first; the sums are those of the running month.',
});
const orderSchema = Type.Enum(['asc', 'desc'], { description: 'Smallest or largest first.' });

const tenantQuery = {
  search: Type.String({ ...searchSchema, description: 'A part of the name or id.' }),
  sort: sortSchema,
  order: orderSchema,
  ...offsetQuery,
};

export function readTenantPage(query: URLSearchParams, now: number): Omit<TenantPage, 'limit'> {
  const search = readParameter(query, 'search', searchSchema)?.trim() ?? '';
  const by = readParameter(query, 'sort', sortSchema) ?? 'created_at';
  const isDescending = readParameter(query, 'order', orderSchema) === 'desc';
  const order = { by, isDescending, days: daysOf(monthAround(now)) };
  return { offset: readOffset(query), search, order };
}

/** What the operator does. */

export const wallet = record('Wallet', {
  total: credits('Granted and not yet spent.'),
  held: credits('Set aside for running requests, and by other processes for their next.'),
  available: credits(),
});

const tenant = record('Tenant', {
  id: text(),
  name: text(),
  disabled: Type.Boolean(),
  requests_per_minute: nullable(count()),
  concurrent_requests: nullable(count()),
  created_at: time(),
  updated_at: time(),
  credits: wallet,
  current_period: inlineRecord({
    start_date: time(),
    requests: count(),
    failed_requests: count(),
    total_spend: credits('Charged for requests of this UTC month.'),
    written_off: credits('Used beyond what the tenant had, and never charged.'),
  }),
});

const entry = record('CreditEntry', {
  id: count(),
  tenant_id: text(),
  type: text(),
  amount: credits(),
  balance: credits('After it.'),
  note: text(),
  created_at: time(),
});

const overview = record('Overview', {
  tenants: count(),
  keys: count(),
  credits: wallet,
  version: text(),
  uptime_seconds: count(),
  database: oneOf('sqlite', 'postgres'),
});

const providerState = record('ProviderState', {
  name: text(),
  dialect: text(),
  circuit,
  recent: nullable(
    inlineRecord({
      window_seconds: count('How far back they go: a quarter of an hour, less after a start.'),
      calls: count('Calls to the provider; a request that moves on makes several.'),
      failed_calls: count('Those of them that failed by no fault of the request.'),
      failures: Type.Record(Type.String(), Type.Integer(), {
        description: 'What went wrong, and how often.',
      }),
    }),
  ),
  endpoints: Type.Array(
    inlineRecord({
      model: text(),
      upstream_model: text(),
      priority: count(),
      circuit,
      failures_in_a_row: count(),
      first_byte_ms: nullable(Type.Number()),
      tokens_per_second: nullable(Type.Number()),
    }),
  ),
});

const id = { id: 'The id of a tenant.' };

export const adminDocs = {
  createTenant: {
    summary: 'Create a tenant',
    body: named('NewTenant', newTenantSchema),
    example: { id: 'acme', name: 'Acme' },
    answers: { 201: data(tenant) },
  },
  listTenants: {
    summary: 'List tenants',
    details: `Up to ${tenantsPerPage} at once, oldest first unless told.`,
    query: tenantQuery,
    answers: { 200: data(Type.Array(tenant)) },
  },
  showTenant: { summary: 'Look at a tenant', path: id, answers: { 200: data(tenant) } },
  changeTenant: {
    summary: 'Change a tenant',
    path: id,
    body: named('TenantChange', tenantChangeSchema),
    example: { disabled: true },
    answers: { 200: data(tenant) },
  },
  changeCredits: {
    summary: 'Grant or correct credits',
    details: 'Repeating one with the same `idempotency_key` books nothing and answers 200.',
    path: id,
    body: named('CreditChange', creditChangeSchema),
    example: { amount: 1_000_000, note: 'Invoice 17', idempotency_key: 'invoice-17' },
    answers: { 200: data(entry), 201: data(entry) },
  },
  listCredits: {
    summary: 'Look at credits and what changed them',
    details:
      `The latest ${entriesPerPage} grants and corrections, newest first; ` +
      'charges are in the statement.',
    path: id,
    query: offsetQuery,
    answers: { 200: data(inlineRecord({ ...wallet.properties, entries: Type.Array(entry) })) },
  },
  createKey: {
    summary: 'Create a key for a tenant',
    path: id,
    body: newKeyBody,
    example: { name: 'first key', management: true },
    answers: { 201: issuedKey },
  },
  overview: { summary: 'The installation at a glance', answers: { 200: data(overview) } },
  providers: {
    summary: 'How providers are doing',
    details: 'In the process that answers.',
    answers: { 200: data(Type.Array(providerState)) },
  },
  accounting: {
    summary: 'How far the books are behind',
    details: 'In the process that answers.',
    answers: {
      200: data(
        record('Backlog', { running: count(), waiting: count(), journal_bytes: count('On disk.') }),
      ),
    },
  },
} satisfies Record<string, RouteDoc>;
