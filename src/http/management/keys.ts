import * as manage from '../../auth/management/keys.ts';
import { findTenant } from '../../auth/management/tenants.ts';
import { deletedObject } from '../../contract/fields.ts';
import { type IssuedKeyObject, keyDocs, tenantKeyDocs } from '../../contract/keys.ts';
import type { Caller } from '../../core/caller.ts';
import { fieldsOf } from '../../core/json.ts';
import { readManagementBody } from '../body/body.ts';
import { type KeyContext, openRouterKey } from '../openrouter.ts';
import { readOffset, readParameter } from '../query.ts';
import { json } from '../reply.ts';
import { type Exchange, type Route, routesFor } from '../routes.ts';

export type KeyDeps = manage.KeyService & {
  /**
   * Applies a change in this process immediately, so that it is effective when the call returns.
   */
  applyChanges(): Promise<void>;
};

type KeyHandler = (
  deps: KeyDeps,
  exchange: Exchange,
  tenantId: string,
  keyId: string,
  /** The tenant's management key. Absent for operators. */
  caller?: Caller,
) => Promise<Response>;

const handlers: Readonly<Record<keyof typeof tenantKeyDocs, KeyHandler>> = {
  async create(deps, exchange, tenantId, _keyId, caller) {
    const body = await readManagementBody(exchange);
    const { key, text } = await manage.createKey(deps, tenantId, body, caller);
    exchange.change = { action: 'key.create', tenant: tenantId, target: key.id };
    const issued: IssuedKeyObject = { data: key, key: text };
    return json(exchange, issued, 201);
  },
  async list(deps, exchange, tenantId) {
    const { query } = exchange;
    const offset = readOffset(query);
    const { include_disabled, search: searchSchema } = keyDocs.list.query;
    const includeDisabled = readParameter(query, 'include_disabled', include_disabled) ?? false;
    const search = readParameter(query, 'search', searchSchema)?.trim() ?? '';
    const data = await manage.listKeys(deps, tenantId, { offset, includeDisabled, search });
    return json(exchange, { data });
  },
  async show(deps, exchange, tenantId, keyId) {
    return json(exchange, { data: await manage.showKey(deps, tenantId, keyId) });
  },
  async change(deps, exchange, tenantId, keyId, caller) {
    const body = await readManagementBody(exchange);
    const data = await manage.changeKey(deps, tenantId, keyId, body, caller);
    const fields = Object.keys(fieldsOf(body)).join();
    exchange.change = { action: 'key.update', tenant: tenantId, target: keyId, fields };
    await deps.applyChanges();
    return json(exchange, { data });
  },
  async delete(deps, exchange, tenantId, keyId) {
    await manage.deleteKey(deps, tenantId, keyId);
    exchange.change = { action: 'key.delete', tenant: tenantId, target: keyId };
    await deps.applyChanges();
    return json(exchange, deletedObject);
  },
  async rotate(deps, exchange, tenantId, keyId, caller) {
    const body = await readManagementBody(exchange);
    const { key, text } = await manage.rotateKey(deps, tenantId, keyId, body, caller);
    exchange.change = { action: 'key.rotate', tenant: tenantId, target: keyId };
    await deps.applyChanges();
    const issued: IssuedKeyObject = { data: key, key: text };
    return json(exchange, issued);
  },
};

const management = routesFor({ access: 'management' });
const anyKey = routesFor({ access: 'either' });
const admin = routesFor({ access: 'admin' });

/** Key management for tenants. The tenant is always the caller's, never a parameter. */
export function keyRoutes(deps: KeyDeps & KeyContext): Route[] {
  const own = (name: keyof typeof handlers) => (exchange: Exchange, caller: Caller) =>
    handlers[name](deps, exchange, caller.tenantId, exchange.param('id'), caller);
  return [
    management.post('/api/v1/keys', keyDocs.create, own('create')),
    management.get('/api/v1/keys', keyDocs.list, own('list')),
    management.get('/api/v1/keys/:id', keyDocs.show, own('show')),
    management.patch('/api/v1/keys/:id', keyDocs.change, own('change')),
    management.delete('/api/v1/keys/:id', keyDocs.delete, own('delete')),
    management.post('/api/v1/keys/:id/rotate', keyDocs.rotate, own('rotate')),
    // No scope is required, because clients read their remaining credits here.
    anyKey.get('/v1/key', keyDocs.current, async (exchange, caller) => {
      const key = await manage.showKey(deps, caller.tenantId, caller.keyId);
      return json(exchange, {
        data: exchange.openRouterStyle ? openRouterKey(key, caller, deps) : key,
      });
    }),
  ];
}

/** The same for operators, who name the tenant in the path. */
export function tenantKeyRoutes(deps: KeyDeps): Route[] {
  const named = (name: keyof typeof handlers) => async (exchange: Exchange) => {
    // Checked first, so that an unknown tenant isn't reported as one without keys.
    const { id } = await findTenant(deps.directory, exchange.param('id'));
    return handlers[name](deps, exchange, id, exchange.param('key_id'));
  };
  const keys = '/admin/v1/tenants/:id/keys';
  return [
    admin.post(keys, tenantKeyDocs.create, named('create')),
    admin.get(keys, tenantKeyDocs.list, named('list')),
    admin.get(`${keys}/:key_id`, tenantKeyDocs.show, named('show')),
    admin.patch(`${keys}/:key_id`, tenantKeyDocs.change, named('change')),
    admin.delete(`${keys}/:key_id`, tenantKeyDocs.delete, named('delete')),
    admin.post(`${keys}/:key_id/rotate`, tenantKeyDocs.rotate, named('rotate')),
  ];
}
