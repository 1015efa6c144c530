import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { type GatewayError, invalidRequest, notFound } from '../../core/errors.ts';
import { newTenantId } from '../../core/ids.ts';
import { definedFields } from '../../core/json.ts';
import { optional, validate } from '../../core/schema.ts';
import type { Directory, Tenant, TenantPage } from '../directory.ts';
import { countField, nameField } from './field-schemas.ts';

/** What an operator does with tenants, by HTTP or by the command line. */

export const tenantsPerPage = 100;

const tenantId = '^[a-z0-9][a-z0-9_-]{0,62}$';
const isTenantId = new RegExp(tenantId);

const limits = {
  requests_per_minute: optional(countField(1)),
  concurrent_requests: optional(countField(1)),
};

export const newTenantSchema = Type.Object(
  {
    id: optional(
      Type.String({
        pattern: tenantId,
        expected:
          '1 to 63 lower-case letters, digits, "-" and "_", starting with a letter or digit',
      }),
    ),
    name: nameField(),
    ...limits,
  },
  { additionalProperties: false },
);
export const tenantChangeSchema = Type.Object(
  { name: Type.Optional(nameField()), disabled: Type.Optional(Type.Boolean()), ...limits },
  { additionalProperties: false },
);

const newTenantCheck = Compile(newTenantSchema);
const tenantChangeCheck = Compile(tenantChangeSchema);

export interface TenantService {
  readonly directory: Pick<Directory, 'addTenant' | 'getTenant' | 'listTenants' | 'changeTenant'>;
  now(): number;
}

export async function createTenant(service: TenantService, body: unknown): Promise<TenantObject> {
  const input = validate(newTenantCheck, newTenantSchema, body);
  const now = service.now();
  const tenant: Tenant = {
    id: input.id ?? newTenantId(),
    name: input.name,
    disabled: false,
    requestsPerMinute: input.requests_per_minute ?? null,
    concurrentRequests: input.concurrent_requests ?? null,
    createdAt: now,
    updatedAt: now,
  };
  if ((await service.directory.addTenant(tenant)) === 'exists') {
    throw invalidRequest(`There already is a tenant with the id "${tenant.id}".`, 'id', 409);
  }
  return tenantObject(tenant);
}

export async function listTenants(
  service: TenantService,
  page: Omit<TenantPage, 'limit'>,
): Promise<readonly TenantObject[]> {
  const tenants = await service.directory.listTenants({ limit: tenantsPerPage, ...page });
  return tenants.map(tenantObject);
}

export async function showTenant(service: TenantService, id: string): Promise<TenantObject> {
  return tenantObject(await findTenant(service.directory, id));
}

export async function changeTenant(
  service: TenantService,
  id: string,
  body: unknown,
): Promise<TenantObject> {
  const input = validate(tenantChangeCheck, tenantChangeSchema, body);
  const change = definedFields({
    name: input.name,
    disabled: input.disabled,
    requestsPerMinute: input.requests_per_minute,
    concurrentRequests: input.concurrent_requests,
  });
  if (Object.keys(change).length === 0) return showTenant(service, id);
  await findTenant(service.directory, id);
  const changed = await service.directory.changeTenant(id, change, service.now());
  if (!changed) throw unknownTenant();
  return tenantObject(changed);
}

/** An id that no tenant can have is not looked up: a store may refuse its bytes. */
export async function findTenant(
  directory: Pick<Directory, 'getTenant'>,
  id: string,
): Promise<Tenant> {
  const tenant = isTenantId.test(id) ? await directory.getTenant(id) : undefined;
  if (!tenant) throw unknownTenant();
  return tenant;
}

export function unknownTenant(): GatewayError {
  return notFound('There is no tenant with this id.');
}

export type TenantObject = Readonly<ReturnType<typeof tenantObject>>;

/** A tenant as the operator reads it. */
function tenantObject(tenant: Tenant) {
  return {
    id: tenant.id,
    name: tenant.name,
    disabled: tenant.disabled,
    requests_per_minute: tenant.requestsPerMinute,
    concurrent_requests: tenant.concurrentRequests,
    created_at: new Date(tenant.createdAt).toISOString(),
    updated_at: new Date(tenant.updatedAt).toISOString(),
  };
}
