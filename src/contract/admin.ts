import { Type } from 'typebox';
import { nullable, oneOf, optional } from '../core/schema.ts';
import {
  count,
  countField,
  credits,
  data,
  inlineRecord,
  lineField,
  nameField,
  record,
  type Shape,
  text,
  time,
} from './fields.ts';
import { circuit, endpointHealth, endpointWeight } from './models.ts';
import { offsetQuery } from './query.ts';
import { operatorReceiptSchema } from './receipt.ts';
import type { RouteDoc } from './route-doc.ts';

// Requests and responses for operators: tenants, credits, and the state of the installation.

export const tenantsPerPage = 100;
export const entriesPerPage = 100;

// Tenants.

export const tenantIdPattern = '^[a-z0-9][a-z0-9_-]{0,62}$';

const tenantLimits = {
  requests_per_minute: optional(countField(1)),
  concurrent_requests: optional(countField(1)),
  plan: optional(
    Type.String({
      ...lineField(1, 63),
      description: 'The plan whose prices the tenant pays. Null means `billing.default_plan`.',
    }),
  ),
};

export const newTenantSchema = record('NewTenant', {
  id: optional(
    Type.String({
      pattern: tenantIdPattern,
      expected: '1 to 63 lowercase letters, digits, "-" and "_", starting with a letter or digit',
    }),
  ),
  name: nameField(),
  ...tenantLimits,
});

export const tenantChangeSchema = record('TenantChange', {
  name: Type.Optional(nameField()),
  disabled: Type.Optional(Type.Boolean()),
  ...tenantLimits,
});

export const tenantSorts = [
  'created_at',
  'name',
  'credits',
  'spend',
  'requests',
  'failed_requests',
  'written_off',
] as const;

export const tenantQuery = {
  search: Type.String({ ...lineField(0, 200), description: 'Part of the name or ID.' }),
  plan: Type.String({ ...lineField(1, 63), description: 'Only tenants that have this plan.' }),
  sort: Type.Enum([...tenantSorts], {
    description: 'The field to sort by. Sums are those of the current month.',
  }),
  order: Type.Enum(['asc', 'desc'], {
    description: '`asc` for smallest first, `desc` for largest first.',
  }),
  ...offsetQuery,
};

const walletFields = {
  total: credits('Granted and not yet spent.'),
  held: credits('Reserved for running requests.'),
  available: credits('`total` without `held`.'),
};

/** A wallet as its tenant sees it. */
export const walletSchema = inlineRecord(walletFields);
export type WalletObject = Shape<typeof walletSchema>;

const operatorWalletSchema = record('Wallet', {
  ...walletFields,
  leased: credits(
    'Leased to gateway processes, which admit requests without waiting for the database. ' +
      'Includes `held`.',
  ),
});
export type OperatorWalletObject = Shape<typeof operatorWalletSchema>;

const tenantFields = {
  id: text(),
  name: text(),
  disabled: Type.Boolean(),
  requests_per_minute: nullable(count()),
  concurrent_requests: nullable(count()),
  plan: nullable(text('Null means `billing.default_plan`.')),
  created_at: time(),
  updated_at: time(),
};
export type TenantFields = Omit<TenantObject, 'credits' | 'current_period'>;

const tenantMonthSchema = inlineRecord({
  start_date: time(),
  requests: count(),
  failed_requests: count(),
  total_spend: credits('Charged for requests of this UTC month.'),
  written_off: credits('Used beyond the balance of the tenant, and never charged.'),
});
export type TenantMonthObject = Shape<typeof tenantMonthSchema>;

const tenantSchema = record('Tenant', {
  ...tenantFields,
  credits: operatorWalletSchema,
  current_period: tenantMonthSchema,
});
export type TenantObject = Shape<typeof tenantSchema>;

// Credits.

export const creditChangeSchema = record('CreditChange', {
  amount: Type.Integer({
    minimum: Number.MIN_SAFE_INTEGER,
    maximum: Number.MAX_SAFE_INTEGER,
    expected: 'a whole number of credits',
  }),
  note: optional(lineField(0, 500)),
  idempotency_key: optional(lineField(1, 200)),
});

export const creditEntryKinds = ['grant', 'correction'] as const;

const creditEntrySchema = record('CreditEntry', {
  id: count(),
  tenant_id: text(),
  type: oneOf(...creditEntryKinds),
  amount: credits(),
  balance: credits('After this entry.'),
  note: text(),
  created_at: time(),
});
export type CreditEntryObject = Shape<typeof creditEntrySchema>;

const tenantCreditsSchema = inlineRecord({
  ...operatorWalletSchema.properties,
  entries: Type.Array(creditEntrySchema),
});
export type TenantCreditsObject = Shape<typeof tenantCreditsSchema>;

// The installation.

const overviewSchema = record('Overview', {
  tenants: count(),
  keys: count(),
  credits: operatorWalletSchema,
  version: text(),
  uptime_seconds: count(),
  database: oneOf('sqlite', 'postgres'),
  configuration: inlineRecord({
    source: text('The configuration file.'),
    version: count('The latest version of the objects in the store that this process has read.'),
    applied_version: count(
      'The version in use. It is older if the latest one is invalid together with the file.',
    ),
    problems: Type.Array(text(), { description: 'Why the latest version is not in use.' }),
  }),
});
export type OverviewObject = Shape<typeof overviewSchema>;

const recentCallsSchema = inlineRecord({
  window_seconds: count('The period covered: 15 minutes, or the time since startup if shorter.'),
  calls: count('Calls to the provider; a request that falls back makes several.'),
  failed_calls: count('Calls that failed for a reason other than an invalid request.'),
  failures: Type.Record(Type.String(), Type.Integer(), {
    description:
      'How often each kind of failure occurred. `credential` is a rejection of your key, ' +
      '`tenant_credential` of a key of a tenant.',
  }),
});
export type RecentCallsObject = Shape<typeof recentCallsSchema>;

const providerEndpointSchema = inlineRecord({
  model: text(),
  upstream_model: text(),
  priority: count(),
  weight: endpointWeight,
  circuit,
  failures_in_a_row: count(),
  ...endpointHealth,
});
export type ProviderEndpointObject = Shape<typeof providerEndpointSchema>;

const providerKeySchema = inlineRecord({
  name: text('The name in the configuration.'),
  weight: count(),
  state: {
    ...oneOf('available', 'waiting', 'set_aside', 'disabled'),
    description:
      '`waiting`: rate limited by the provider, for one model at least, or at its own limit. ' +
      '`set_aside`: rejected by the provider.',
  },
  running_requests: count(),
  until: nullable(time('When a key that has been replaced stops being used.')),
  retry_after_seconds: nullable(count('When the key is used or tried again.')),
  status: nullable(count('The status with which the provider rejected the key.')),
  message: nullable(text("The provider's message, without secrets.")),
});
export type ProviderKeyObject = Shape<typeof providerKeySchema>;

/** The health of a provider. A provider whose endpoints nobody can call has no endpoints here. */
export const providerStateFields = {
  name: text(),
  dialect: text(),
  circuit,
  recent: nullable(recentCallsSchema),
  endpoints: Type.Array(providerEndpointSchema),
  keys: Type.Array(providerKeySchema, { description: 'Empty unless `api_keys` is configured.' }),
};
const providerStateSchema = inlineRecord(providerStateFields);
export type ProviderStateObject = Shape<typeof providerStateSchema>;

const backlogSchema = record('Backlog', {
  running: count('Requests that have been sent to a provider and have not ended.'),
  waiting: count('Requests that have ended and are not booked yet.'),
  journal_bytes: count('The size of the journal on disk.'),
});
export type BacklogObject = Shape<typeof backlogSchema>;

const id = { id: 'The ID of a tenant.' };
const processDetails = 'Describes only the process that handles the request.';

export const adminDocs = {
  createTenant: {
    summary: 'Create a tenant',
    body: newTenantSchema,
    example: { id: 'acme', name: 'Acme' },
    responses: { 201: data(tenantSchema) },
  },
  listTenants: {
    summary: 'List tenants',
    details: `Returns up to ${tenantsPerPage} tenants, by default oldest first.`,
    query: tenantQuery,
    responses: { 200: data(Type.Array(tenantSchema)) },
  },
  showTenant: { summary: 'Get a tenant', path: id, responses: { 200: data(tenantSchema) } },
  changeTenant: {
    summary: 'Update a tenant',
    path: id,
    body: tenantChangeSchema,
    bodyOptional: true,
    example: { disabled: true },
    responses: { 200: data(tenantSchema) },
  },
  changeCredits: {
    summary: 'Grant or correct credits',
    details: 'A repeated `idempotency_key` changes nothing and returns the first entry with 200.',
    path: id,
    body: creditChangeSchema,
    example: { amount: 1_000_000, note: 'Invoice 17', idempotency_key: 'invoice-17' },
    responses: { 200: data(creditEntrySchema), 201: data(creditEntrySchema) },
  },
  listCredits: {
    summary: 'Get the wallet of a tenant and its entries',
    details:
      `Returns up to ${entriesPerPage} grants and corrections, newest first. ` +
      'Charges are in the statement.',
    path: id,
    query: offsetQuery,
    responses: { 200: data(tenantCreditsSchema) },
  },
  receipt: {
    summary: 'Get the receipt of any request',
    details:
      'Also has what the tenant does not see: the list prices, the margin of its plan, and the ' +
      "messages of providers about the operator's accounts. 404 while the request is running.",
    path: { id: 'The `x-request-id` of the request, or the ID of its answer.' },
    responses: { 200: data(operatorReceiptSchema) },
  },
  overview: { summary: 'Get an overview', responses: { 200: data(overviewSchema) } },
  accounting: {
    summary: 'Get the accounting backlog',
    details: processDetails,
    responses: { 200: data(backlogSchema) },
  },
} satisfies Record<string, RouteDoc>;
