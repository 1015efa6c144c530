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
import type { Route } from '../routes.ts';
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
  /** Makes every request that has ended readable: whoever just spent most is first. */
  flush(): Promise<void>;
}

type AdminParts = KeyParts & CreditDesk & InstallationParts;

/** The operator's routes: tenants, their credits and their first keys. */
export function adminRoutes(parts: AdminParts): Route[] {
  return [...tenantRoutes(parts), ...creditRoutes(parts), ...otherRoutes(parts)];
}

function tenantRoutes(parts: AdminParts): Route[] {
  const withBooks = async (tenant: TenantObject) => (await allWithBooks(parts, [tenant]))[0];
  return [
    {
      method: 'POST',
      path: '/admin/v1/tenants',
      doc: adminDocs.createTenant,
      access: 'admin',
      async handle(exchange) {
        const tenant = await createTenant(parts, await readManagementBody(exchange));
        return json(exchange, { data: await withBooks(tenant) }, 201);
      },
    },
    {
      method: 'GET',
      path: '/admin/v1/tenants',
      doc: adminDocs.listTenants,
      access: 'admin',
      async handle(exchange) {
        const page = readTenantPage(exchange.query, parts.now());
        await parts.flush();
        const tenants = await listTenants(parts, page);
        return json(exchange, { data: await allWithBooks(parts, tenants) });
      },
    },
    {
      method: 'GET',
      path: '/admin/v1/tenants/:id',
      doc: adminDocs.showTenant,
      access: 'admin',
      async handle(exchange) {
        const tenant = await showTenant(parts, exchange.param('id'));
        return json(exchange, { data: await withBooks(tenant) });
      },
    },
    {
      method: 'PATCH',
      path: '/admin/v1/tenants/:id',
      doc: adminDocs.changeTenant,
      access: 'admin',
      async handle(exchange) {
        const body = await readManagementBody(exchange);
        const tenant = await changeTenant(parts, exchange.param('id'), body);
        await parts.noticeChange();
        return json(exchange, { data: await withBooks(tenant) });
      },
    },
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

function creditRoutes(parts: AdminParts): Route[] {
  return [
    {
      method: 'POST',
      path: '/admin/v1/tenants/:id/credits',
      doc: adminDocs.changeCredits,
      access: 'admin',
      async handle(exchange) {
        const body = await readManagementBody(exchange);
        const { entry, repeated } = await changeCredits(parts, exchange.param('id'), body);
        return json(exchange, { data: entry }, repeated ? 200 : 201);
      },
    },
    {
      method: 'GET',
      path: '/admin/v1/tenants/:id/credits',
      doc: adminDocs.listCredits,
      access: 'admin',
      async handle(exchange) {
        const { id } = await showTenant(parts, exchange.param('id'));
        const entries = await listEntries(parts, id, readOffset(exchange.query));
        return json(exchange, { data: { ...(await showWallet(parts, id)), entries } });
      },
    },
  ];
}

function otherRoutes(parts: AdminParts): Route[] {
  return [
    {
      method: 'POST',
      path: '/admin/v1/tenants/:id/keys',
      doc: adminDocs.createKey,
      access: 'admin',
      async handle(exchange) {
        const body = await readManagementBody(exchange);
        const { key, text } = await createKey(parts, exchange.param('id'), body);
        return json(exchange, { data: key, key: text }, 201);
      },
    },
    {
      method: 'GET',
      path: '/admin/v1/overview',
      doc: adminDocs.overview,
      access: 'admin',
      async handle(exchange) {
        const { tenants, keys, balance, version, uptimeSeconds, database } = await parts.overview();
        const credits = walletObject(balance);
        const data = { tenants, keys, credits, version, uptime_seconds: uptimeSeconds, database };
        return json(exchange, { data });
      },
    },
  ];
}
