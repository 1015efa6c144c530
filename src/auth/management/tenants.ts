import { Compile } from 'typebox/schema';
import {
  newTenantSchema,
  type TenantFields,
  tenantChangeSchema,
  tenantIdPattern,
  tenantsPerPage,
} from '../../contract/admin.ts';
import { type GatewayError, invalidRequest, notFound } from '../../core/errors.ts';
import { newTenantId } from '../../core/ids.ts';
import { definedFields } from '../../core/json.ts';
import { validate } from '../../core/schema.ts';
import { didYouMean } from '../../core/text.ts';
import type { Tenant, TenantDirectory, TenantPage } from '../tenant-directory.ts';

/** Tenant management, for the HTTP API and the command line. */

const isTenantId = new RegExp(tenantIdPattern);
const newTenantCheck = Compile(newTenantSchema);
const tenantChangeCheck = Compile(tenantChangeSchema);

export interface TenantService {
  readonly directory: Pick<
    TenantDirectory,
    'addTenant' | 'getTenant' | 'listTenants' | 'changeTenant'
  >;
  now(): number;
  /** Returns the names of the configured plans. */
  plans(): Iterable<string> | Promise<Iterable<string>>;
}

export async function createTenant(service: TenantService, body: unknown): Promise<TenantFields> {
  const input = validate(newTenantCheck, newTenantSchema, body);
  const now = service.now();
  const tenant: Tenant = {
    id: input.id ?? newTenantId(),
    name: input.name,
    disabled: false,
    requestsPerMinute: input.requests_per_minute ?? null,
    concurrentRequests: input.concurrent_requests ?? null,
    plan: (await knownPlan(service, input.plan)) ?? null,
    createdAt: now,
    updatedAt: now,
  };
  if ((await service.directory.addTenant(tenant)) === 'exists') {
    throw invalidRequest(`A tenant with the id "${tenant.id}" already exists.`, 'id', 409);
  }
  return tenantObject(tenant);
}

export async function listTenants(
  service: TenantService,
  page: Omit<TenantPage, 'limit'>,
): Promise<readonly TenantFields[]> {
  const tenants = await service.directory.listTenants({ limit: tenantsPerPage, ...page });
  return tenants.map(tenantObject);
}

export async function showTenant(service: TenantService, id: string): Promise<TenantFields> {
  return tenantObject(await findTenant(service.directory, id));
}

export async function changeTenant(
  service: TenantService,
  id: string,
  body: unknown,
): Promise<TenantFields> {
  const input = validate(tenantChangeCheck, tenantChangeSchema, body);
  const change = definedFields({
    name: input.name,
    disabled: input.disabled,
    requestsPerMinute: input.requests_per_minute,
    concurrentRequests: input.concurrent_requests,
    plan: await knownPlan(service, input.plan),
  });
  if (Object.keys(change).length === 0) return showTenant(service, id);
  await findTenant(service.directory, id);
  const changed = await service.directory.changeTenant(id, change, service.now());
  if (!changed) throw unknownTenant();
  return tenantObject(changed);
}

/** Returns the plan. Throws 400 if it isn't configured. */
async function knownPlan<Plan extends string | null | undefined>(
  { plans }: Pick<TenantService, 'plans'>,
  plan: Plan,
): Promise<Plan> {
  if (typeof plan !== 'string') return plan;
  const names = [...(await plans())];
  if (names.includes(plan)) return plan;
  const hint =
    names.length === 0
      ? '; no plans are configured.'
      : didYouMean(plan, names) || `; the plans are ${names.join(', ')}.`;
  throw invalidRequest(`There is no plan "${plan}"${hint}`, 'plan');
}

/** Skips the lookup for an invalid ID, because a database may reject its characters. Throws 404. */
export async function findTenant(
  directory: Pick<TenantDirectory, 'getTenant'>,
  id: string,
): Promise<Tenant> {
  const tenant = isTenantId.test(id) ? await directory.getTenant(id) : undefined;
  if (!tenant) throw unknownTenant();
  return tenant;
}

export function unknownTenant(): GatewayError {
  return notFound('There is no tenant with this ID.');
}

function tenantObject(tenant: Tenant): TenantFields {
  return {
    id: tenant.id,
    name: tenant.name,
    disabled: tenant.disabled,
    requests_per_minute: tenant.requestsPerMinute,
    concurrent_requests: tenant.concurrentRequests,
    plan: tenant.plan,
    created_at: new Date(tenant.createdAt).toISOString(),
    updated_at: new Date(tenant.updatedAt).toISOString(),
  };
}
