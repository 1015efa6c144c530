import * as manage from '../../auth/management/keys.ts';
import { deletedObject } from '../../contract/fields.ts';
import { type IssuedKeyObject, keyDocs } from '../../contract/keys.ts';
import { readManagementBody } from '../body/body.ts';
import { readOffset, readParameter } from '../query.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';

export type KeyDeps = manage.KeyService & {
  /**
   * Applies a change in this process immediately, so that it is effective when the call returns.
   */
  applyChanges(): Promise<void>;
};

const management = routesFor({ access: 'management' });
const anyKey = routesFor({ access: 'either' });

/** Key management for tenants. The tenant is always the caller's, never a parameter. */
export function keyRoutes(service: KeyDeps): Route[] {
  return [
    management.post('/api/v1/keys', keyDocs.create, async (exchange, { tenantId }) => {
      const body = await readManagementBody(exchange);
      const { key, text } = await manage.createKey(service, tenantId, body);
      const issued: IssuedKeyObject = { data: key, key: text };
      return json(exchange, issued, 201);
    }),
    management.get('/api/v1/keys', keyDocs.list, async (exchange, { tenantId }) => {
      const { query } = exchange;
      const offset = readOffset(query);
      const { include_disabled, search: searchSchema } = keyDocs.list.query;
      const includeDisabled = readParameter(query, 'include_disabled', include_disabled) ?? false;
      const search = readParameter(query, 'search', searchSchema)?.trim() ?? '';
      const data = await manage.listKeys(service, tenantId, { offset, includeDisabled, search });
      return json(exchange, { data });
    }),
    management.get('/api/v1/keys/:id', keyDocs.show, async (exchange, { tenantId }) => {
      const data = await manage.showKey(service, tenantId, exchange.param('id'));
      return json(exchange, { data });
    }),
    management.patch('/api/v1/keys/:id', keyDocs.change, async (exchange, { tenantId }) => {
      const body = await readManagementBody(exchange);
      const data = await manage.changeKey(service, tenantId, exchange.param('id'), body);
      await service.applyChanges();
      return json(exchange, { data });
    }),
    management.delete('/api/v1/keys/:id', keyDocs.delete, async (exchange, { tenantId }) => {
      await manage.deleteKey(service, tenantId, exchange.param('id'));
      await service.applyChanges();
      return json(exchange, deletedObject);
    }),
    management.post('/api/v1/keys/:id/rotate', keyDocs.rotate, async (exchange, { tenantId }) => {
      const body = await readManagementBody(exchange);
      const { key, text } = await manage.rotateKey(service, tenantId, exchange.param('id'), body);
      await service.applyChanges();
      const issued: IssuedKeyObject = { data: key, key: text };
      return json(exchange, issued);
    }),
    // No scope is required, because clients read their remaining credits here.
    anyKey.get('/v1/key', keyDocs.current, async (exchange, { tenantId, keyId }) =>
      json(exchange, { data: await manage.showKey(service, tenantId, keyId) }),
    ),
  ];
}
