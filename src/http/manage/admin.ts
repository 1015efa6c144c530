import type { Balance } from '../../auth/manage/credit-book.ts';
import {
  type CreditDesk,
  changeCredits,
  listEntries,
  showWallet,
  walletObject,
} from '../../auth/manage/credits.ts';
import { createKey } from '../../auth/manage/keys.ts';
import {
  changeTenant,
  createTenant,
  listTenants,
  showTenant,
  type TenantObject,
} from '../../auth/manage/tenants.ts';
import { daysOf, monthAround } from '../../record/period.ts';
import { monthObject, type TenantSumReads } from '../../record/tenant-sums.ts';
import { readManagementBody } from '../body/body.ts';
import { adminDocs } from '../openapi/admin.ts';
import { readOffset } from '../query.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';
import { readTenantPage } from './admin-query.ts';
import type { KeyParts } from './keys.ts';

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

interface InstallationParts {
  readonly sums: TenantSumReads;
  overview(): Promise<Overview>;
  /**
   * Reads after all ended requests are booked, so that the tenant that just spent most is first.
   */
  settled<T>(read: () => Promise<T>): Promise<T>;
}

type AdminParts = KeyParts & CreditDesk & InstallationParts;

const admin = routesFor({ access: 'admin' });

/** The operator's routes: tenants, their credits and their first keys. */
export function adminRoutes(parts: AdminParts): Route[] {
  const withBooks = async (tenant: TenantObject) => (await allWithBooks(parts, [tenant]))[0];
  return [
    admin.post('/admin/v1/tenants', adminDocs.createTenant, async (exchange) => {
      const tenant = await createTenant(parts, await readManagementBody(exchange));
      return json(exchange, { data: await withBooks(tenant) }, 201);
    }),
    admin.get('/admin/v1/tenants', adminDocs.listTenants, async (exchange) => {
      const page = readTenantPage(exchange.query, parts.now());
      const tenants = await parts.settled(() => listTenants(parts, page));
      return json(exchange, { data: await allWithBooks(parts, tenants) });
    }),
    admin.get('/admin/v1/tenants/:id', adminDocs.showTenant, async (exchange) => {
      const tenant = await showTenant(parts, exchange.param('id'));
      return json(exchange, { data: await withBooks(tenant) });
    }),
    admin.patch('/admin/v1/tenants/:id', adminDocs.changeTenant, async (exchange) => {
      const body = await readManagementBody(exchange);
      const tenant = await changeTenant(parts, exchange.param('id'), body);
      await parts.noticeChange();
      return json(exchange, { data: await withBooks(tenant) });
    }),
    admin.post('/admin/v1/tenants/:id/credits', adminDocs.changeCredits, async (exchange) => {
      const body = await readManagementBody(exchange);
      const { entry, repeated } = await changeCredits(parts, exchange.param('id'), body);
      return json(exchange, { data: entry }, repeated ? 200 : 201);
    }),
    admin.get('/admin/v1/tenants/:id/credits', adminDocs.listCredits, async (exchange) => {
      const { id } = await showTenant(parts, exchange.param('id'));
      const entries = await listEntries(parts, id, readOffset(exchange.query));
      return json(exchange, { data: { ...(await showWallet(parts, id)), entries } });
    }),
    admin.post('/admin/v1/tenants/:id/keys', adminDocs.createKey, async (exchange) => {
      const body = await readManagementBody(exchange);
      const { key, text } = await createKey(parts, exchange.param('id'), body);
      return json(exchange, { data: key, key: text }, 201);
    }),
    admin.get('/admin/v1/overview', adminDocs.overview, async (exchange) => {
      const { tenants, keys, balance, version, uptimeSeconds, database } = await parts.overview();
      const credits = walletObject(balance);
      const data = { tenants, keys, credits, version, uptime_seconds: uptimeSeconds, database };
      return json(exchange, { data });
    }),
  ];
}

/** Tenants with their wallets and their month so far. */
async function allWithBooks(parts: AdminParts, tenants: readonly TenantObject[]) {
  const now = parts.now();
  const wallets = await Promise.all(tenants.map(({ id }) => showWallet(parts, id)));
  const ids = tenants.map(({ id }) => id);
  const sums = await parts.sums.of(ids, daysOf(monthAround(now)));
  const byId = new Map(sums.map((one) => [one.tenantId, one]));
  return tenants.map((tenant, at) => ({
    ...tenant,
    credits: wallets[at],
    current_period: monthObject(byId.get(tenant.id), now),
  }));
}
