import {
  type Balance,
  type CreditService,
  changeCredits,
  listEntries,
  operatorWalletObject,
  showWallet,
} from '../../auth/management/credits.ts';
import {
  changeTenant,
  createTenant,
  listTenants,
  showTenant,
} from '../../auth/management/tenants.ts';
import type { TenantPage } from '../../auth/tenant-directory.ts';
import {
  adminDocs,
  type BacklogObject,
  type OverviewObject,
  type ProviderEndpointObject,
  type ProviderKeyObject,
  type ProviderStateObject,
  type RecentCallsObject,
  type TenantCreditsObject,
  type TenantFields,
  type TenantObject,
  tenantQuery,
} from '../../contract/admin.ts';
import { fieldsOf } from '../../core/json.ts';
import { type TenantSumReads, tenantMonthObject } from '../../records/analytics.ts';
import { daysOf, monthAround } from '../../records/period.ts';
import type { Catalog, Offer } from '../../route/catalog.ts';
import type { CircuitState, Health } from '../../route/health.ts';
import type { KeyStatus, ProviderKeys } from '../../route/provider-keys.ts';
import type { AccountingState } from '../../telemetry/gauges.ts';
import type { RecentCalls } from '../../telemetry/recent-calls.ts';
import { readManagementBody } from '../body/body.ts';
import { healthFields } from '../inference/models.ts';
import { readOffset, readParameter } from '../query.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';
import type { KeyDeps } from './keys.ts';

interface Overview {
  readonly tenants: number;
  readonly keys: number;
  /** The sum of all wallets. */
  readonly balance: Balance;
  readonly version: string;
  readonly uptimeSeconds: number;
  readonly database: OverviewObject['database'];
  readonly configuration: OverviewObject['configuration'];
}

interface InstallationDeps {
  readonly sums: TenantSumReads;
  overview(): Promise<Overview>;
  /** Runs a read once all ended requests are booked, so that its sums include them. */
  settled<T>(read: () => Promise<T>): Promise<T>;
}

type AdminDeps = KeyDeps & CreditService & InstallationDeps;

const admin = routesFor({ access: 'admin' });

/** The operator's routes for tenants and their credits. */
export function adminRoutes(deps: AdminDeps): Route[] {
  return [
    admin.post('/admin/v1/tenants', adminDocs.createTenant, async (exchange) => {
      const tenant = await createTenant(deps, await readManagementBody(exchange));
      exchange.change = { action: 'tenant.create', tenant: tenant.id };
      return json(exchange, { data: await tenantObject(deps, tenant) }, 201);
    }),
    admin.get('/admin/v1/tenants', adminDocs.listTenants, async (exchange) => {
      const page = readTenantPage(exchange.query, deps.now());
      const tenants = await deps.settled(() => listTenants(deps, page));
      return json(exchange, { data: await tenantObjects(deps, tenants) });
    }),
    admin.get('/admin/v1/tenants/:id', adminDocs.showTenant, async (exchange) => {
      const tenant = await showTenant(deps, exchange.param('id'));
      return json(exchange, { data: await tenantObject(deps, tenant) });
    }),
    admin.patch('/admin/v1/tenants/:id', adminDocs.changeTenant, async (exchange) => {
      const body = await readManagementBody(exchange);
      const tenant = await changeTenant(deps, exchange.param('id'), body);
      const fields = Object.keys(fieldsOf(body)).join();
      exchange.change = { action: 'tenant.update', tenant: tenant.id, fields };
      await deps.applyChanges();
      return json(exchange, { data: await tenantObject(deps, tenant) });
    }),
    admin.post('/admin/v1/tenants/:id/credits', adminDocs.changeCredits, async (exchange) => {
      const body = await readManagementBody(exchange);
      const { entry, repeated } = await changeCredits(deps, exchange.param('id'), body);
      const { tenant_id: tenant, id, amount } = entry;
      exchange.change = { action: 'credits.change', tenant, target: String(id), amount };
      return json(exchange, { data: entry }, repeated ? 200 : 201);
    }),
    admin.get('/admin/v1/tenants/:id/credits', adminDocs.listCredits, async (exchange) => {
      const { id } = await showTenant(deps, exchange.param('id'));
      const entries = await listEntries(deps, id, readOffset(exchange.query));
      const data: TenantCreditsObject = { ...(await showWallet(deps, id)), entries };
      return json(exchange, { data });
    }),
    admin.get('/admin/v1/overview', adminDocs.overview, async (exchange) =>
      json(exchange, { data: overviewObject(await deps.overview()) }),
    ),
  ];
}

function readTenantPage(query: URLSearchParams, now: number): Omit<TenantPage, 'limit'> {
  const search = readParameter(query, 'search', tenantQuery.search)?.trim() ?? '';
  const plan = readParameter(query, 'plan', tenantQuery.plan) ?? null;
  const by = readParameter(query, 'sort', tenantQuery.sort) ?? 'created_at';
  const isDescending = readParameter(query, 'order', tenantQuery.order) === 'desc';
  const order = { by, isDescending, days: daysOf(monthAround(now)) };
  return { offset: readOffset(query), search, plan, order };
}

async function tenantObject(
  deps: AdminDeps,
  tenant: TenantFields,
): Promise<TenantObject | undefined> {
  const [object] = await tenantObjects(deps, [tenant]);
  return object;
}

/** Adds the wallet and the sums of the current month to each tenant. */
async function tenantObjects(
  deps: AdminDeps,
  tenants: readonly TenantFields[],
): Promise<readonly TenantObject[]> {
  const now = deps.now();
  const withWallets = await Promise.all(
    tenants.map(async (tenant) => ({ ...tenant, credits: await showWallet(deps, tenant.id) })),
  );
  const ids = tenants.map(({ id }) => id);
  const sums = await deps.sums.sumsOf(ids, daysOf(monthAround(now)));
  const sumsById = new Map(sums.map((tenantSums) => [tenantSums.tenantId, tenantSums]));
  return withWallets.map((tenant) => ({
    ...tenant,
    current_period: tenantMonthObject(sumsById.get(tenant.id), now),
  }));
}

function overviewObject(overview: Overview): OverviewObject {
  const { tenants, keys, balance, version, uptimeSeconds, database, configuration } = overview;
  const credits = operatorWalletObject(balance);
  const installation = { version, uptime_seconds: uptimeSeconds, database, configuration };
  return { tenants, keys, credits, ...installation };
}

interface AccountingDeps {
  accountingState(): AccountingState;
}

/** Routes that describe only this process. Other processes may be in a different state. */
export function stateRoutes(deps: AccountingDeps): Route[] {
  return [
    admin.get('/admin/v1/accounting', adminDocs.accounting, (exchange) =>
      json(exchange, { data: backlogObject(deps.accountingState()) }),
    ),
  ];
}

function backlogObject(state: AccountingState): BacklogObject {
  const { requestsInFlight, unbookedRequests, journalBytes } = state;
  return { running: requestsInFlight, waiting: unbookedRequests, journal_bytes: journalBytes };
}

interface StateDeps {
  readonly catalog: Catalog;
  readonly health: Pick<Health, 'state' | 'observed'>;
  readonly providerKeys: Pick<ProviderKeys, 'statusesOf'>;
  /** The outcomes of the latest calls to each provider. */
  readonly recent: { calls(): ReadonlyMap<string, RecentCalls> };
}

const worstFirst: readonly CircuitState[] = ['open', 'half_open', 'closed'];

/** Returns the health of each provider with an endpoint that can be called, by name. */
export function providerStates({
  catalog,
  health,
  providerKeys,
  recent,
}: StateDeps): ReadonlyMap<string, ProviderStateObject> {
  const calls = recent.calls();
  const offers = catalog.callable().flatMap(({ id }) => catalog.offers(id));
  const offersByProvider = Map.groupBy(offers, ({ provider }) => provider.name);
  const states = [...offersByProvider].map(([name, served]) => {
    const endpoints = served.map((offer) => providerEndpointObject(offer, health));
    const circuits = new Set(endpoints.map(({ circuit }) => circuit));
    const state: ProviderStateObject = {
      name,
      dialect: served[0]?.provider.dialect ?? '',
      circuit: worstFirst.find((state) => circuits.has(state)) ?? 'closed',
      recent: recentCallsObject(calls.get(name)),
      endpoints,
      keys: served[0] ? providerKeys.statusesOf(served[0].provider).map(providerKeyObject) : [],
    };
    return [name, state] as const;
  });
  return new Map(states);
}

function providerKeyObject(keyStatus: KeyStatus): ProviderKeyObject {
  const { key, state, running, retryAfterSeconds, status, message } = keyStatus;
  return {
    ...{ name: key.name, weight: key.weight, state, running_requests: running },
    until: key.until === null ? null : new Date(key.until).toISOString(),
    ...{ retry_after_seconds: retryAfterSeconds, status, message },
  };
}

/** Returns null for a provider without recent calls. */
function recentCallsObject(recent: RecentCalls | undefined): RecentCallsObject | null {
  if (!recent) return null;
  const { windowSeconds, calls, failedCalls, failures } = recent;
  return { window_seconds: windowSeconds, calls, failed_calls: failedCalls, failures };
}

function providerEndpointObject(offer: Offer, health: StateDeps['health']): ProviderEndpointObject {
  return {
    model: offer.model.id,
    upstream_model: offer.upstreamModel,
    priority: offer.priority,
    weight: offer.weight,
    circuit: health.state(offer),
    failures_in_a_row: health.observed(offer).failures,
    ...healthFields(offer, health),
  };
}
