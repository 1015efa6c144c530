import {
  type Balance,
  type CreditService,
  changeCredits,
  listEntries,
  showWallet,
  walletObject,
} from '../../auth/management/credits.ts';
import { createKey } from '../../auth/management/keys.ts';
import {
  changeTenant,
  createTenant,
  listTenants,
  showTenant,
  type TenantObject,
} from '../../auth/management/tenants.ts';
import { adminDocs, readTenantPage } from '../../contract/admin.ts';
import { readOffset } from '../../contract/query.ts';
import { type TenantSumReads, tenantMonthObject } from '../../records/analytics.ts';
import { daysOf, monthAround } from '../../records/period.ts';
import type { Catalog, Offer } from '../../route/catalog.ts';
import type { CircuitState, Health } from '../../route/health.ts';
import type { AccountingState } from '../../telemetry/gauges.ts';
import type { RecentCalls } from '../../telemetry/recent-calls.ts';
import { readManagementBody } from '../body/body.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';
import type { KeyDeps } from './keys.ts';

/** The whole installation at a glance. */
interface Overview {
  readonly tenants: number;
  readonly keys: number;
  /** All wallets together. */
  readonly balance: Balance;
  readonly version: string;
  readonly uptimeSeconds: number;
  /** `sqlite` or `postgres`. */
  readonly database: string;
}

interface InstallationDeps {
  readonly sums: TenantSumReads;
  overview(): Promise<Overview>;
  /**
   * Reads after all ended requests are booked, so that the tenant that just spent most is first.
   */
  settled<T>(read: () => Promise<T>): Promise<T>;
}

type AdminDeps = KeyDeps & CreditService & InstallationDeps;

const admin = routesFor({ access: 'admin' });

/** The operator's routes: tenants, their credits and their first keys. */
export function adminRoutes(deps: AdminDeps): Route[] {
  const describeTenant = async (tenant: TenantObject) => (await describeTenants(deps, [tenant]))[0];
  return [
    admin.post('/admin/v1/tenants', adminDocs.createTenant, async (exchange) => {
      const tenant = await createTenant(deps, await readManagementBody(exchange));
      return json(exchange, { data: await describeTenant(tenant) }, 201);
    }),
    admin.get('/admin/v1/tenants', adminDocs.listTenants, async (exchange) => {
      const page = readTenantPage(exchange.query, deps.now());
      const tenants = await deps.settled(() => listTenants(deps, page));
      return json(exchange, { data: await describeTenants(deps, tenants) });
    }),
    admin.get('/admin/v1/tenants/:id', adminDocs.showTenant, async (exchange) => {
      const tenant = await showTenant(deps, exchange.param('id'));
      return json(exchange, { data: await describeTenant(tenant) });
    }),
    admin.patch('/admin/v1/tenants/:id', adminDocs.changeTenant, async (exchange) => {
      const body = await readManagementBody(exchange);
      const tenant = await changeTenant(deps, exchange.param('id'), body);
      await deps.applyChanges();
      return json(exchange, { data: await describeTenant(tenant) });
    }),
    admin.post('/admin/v1/tenants/:id/credits', adminDocs.changeCredits, async (exchange) => {
      const body = await readManagementBody(exchange);
      const { entry, repeated } = await changeCredits(deps, exchange.param('id'), body);
      return json(exchange, { data: entry }, repeated ? 200 : 201);
    }),
    admin.get('/admin/v1/tenants/:id/credits', adminDocs.listCredits, async (exchange) => {
      const { id } = await showTenant(deps, exchange.param('id'));
      const entries = await listEntries(deps, id, readOffset(exchange.query));
      return json(exchange, { data: { ...(await showWallet(deps, id)), entries } });
    }),
    admin.post('/admin/v1/tenants/:id/keys', adminDocs.createKey, async (exchange) => {
      const body = await readManagementBody(exchange);
      const { key, text } = await createKey(deps, exchange.param('id'), body);
      return json(exchange, { data: key, key: text }, 201);
    }),
    admin.get('/admin/v1/overview', adminDocs.overview, async (exchange) => {
      const { tenants, keys, balance, version, uptimeSeconds, database } = await deps.overview();
      const credits = walletObject(balance);
      const data = { tenants, keys, credits, version, uptime_seconds: uptimeSeconds, database };
      return json(exchange, { data });
    }),
  ];
}

/** Tenants with their wallets and their month so far. */
async function describeTenants(deps: AdminDeps, tenants: readonly TenantObject[]) {
  const now = deps.now();
  const wallets = await Promise.all(tenants.map(({ id }) => showWallet(deps, id)));
  const ids = tenants.map(({ id }) => id);
  const sums = await deps.sums.sumsOf(ids, daysOf(monthAround(now)));
  const byId = new Map(sums.map((one) => [one.tenantId, one]));
  return tenants.map((tenant, index) => ({
    ...tenant,
    credits: wallets[index],
    current_period: tenantMonthObject(byId.get(tenant.id), now),
  }));
}

interface StateDeps {
  readonly catalog: Catalog;
  readonly health: Pick<Health, 'state' | 'observed'>;
  /** How the latest calls to each provider ended. */
  readonly recent: { calls(): ReadonlyMap<string, RecentCalls> };
  /** How far the books are behind the answers. */
  accountingState(): AccountingState;
}

const operator = routesFor({ access: 'admin' });

/** The state of the process that answers; other processes may be doing better or worse. */
export function stateRoutes(deps: StateDeps): Route[] {
  return [
    operator.get('/admin/v1/providers', adminDocs.providers, (exchange) =>
      json(exchange, { data: providerObjects(deps) }),
    ),
    operator.get('/admin/v1/books', adminDocs.accounting, (exchange) => {
      const state = deps.accountingState();
      const { requestsInFlight: running, unbookedRequests: waiting } = state;
      const data = { running, waiting, journal_bytes: state.journalBytes };
      return json(exchange, { data });
    }),
  ];
}

const worstFirst: readonly CircuitState[] = ['open', 'half_open', 'closed'];

function providerObjects({ catalog, health, recent }: StateDeps) {
  const calls = recent.calls();
  const offers = catalog.callable().flatMap(({ id }) => catalog.offers(id));
  const byProvider = Map.groupBy(offers, ({ provider }) => provider.name);
  return [...byProvider].map(([name, served]) => {
    const endpoints = served.map((offer) => endpointObject(offer, health));
    const circuit = worstFirst.find((state) => endpoints.some((one) => one.circuit === state));
    const dialect = served[0]?.provider.dialect;
    return { name, dialect, circuit, recent: recentObject(calls.get(name)), endpoints };
  });
}

/** Null where nobody called the provider. */
function recentObject(recent: RecentCalls | undefined) {
  if (!recent) return null;
  const { windowSeconds, calls, failedCalls, failures } = recent;
  return { window_seconds: windowSeconds, calls, failed_calls: failedCalls, failures };
}

function endpointObject(offer: Offer, health: StateDeps['health']) {
  const { firstByteMs, tokensPerSecond, failures } = health.observed(offer);
  return {
    model: offer.model.id,
    upstream_model: offer.upstreamModel,
    priority: offer.priority,
    circuit: health.state(offer),
    failures_in_a_row: failures,
    first_byte_ms: firstByteMs,
    tokens_per_second: tokensPerSecond,
  };
}
