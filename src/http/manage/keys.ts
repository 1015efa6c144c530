import * as manage from '../../auth/manage/keys.ts';
import { readManagementBody } from '../body/body.ts';
import { keyDocs } from '../openapi/keys.ts';
import { readOffset, readParameter } from '../query.ts';
import { json } from '../reply.ts';
import type { Route } from '../routes.ts';

export type KeyParts = manage.KeyDesk & {
  /** Whoever was told of a change may count on it with the next request to this process. */
  noticeChange(): Promise<void>;
};

/** A tenant's keys, managed by the tenant. The tenant is always the caller's, never an input. */
export function keyRoutes(parts: KeyParts): Route[] {
  return [...collectionRoutes(parts), ...recordRoutes(parts)];
}

function collectionRoutes(desk: manage.KeyDesk): Route[] {
  return [
    {
      method: 'POST',
      path: '/api/v1/keys',
      doc: keyDocs.create,
      access: 'management',
      async handle(exchange, { tenantId }) {
        const body = await readManagementBody(exchange);
        const { key, text } = await manage.createKey(desk, tenantId, body);
        return json(exchange, { data: key, key: text }, 201);
      },
    },
    {
      method: 'GET',
      path: '/api/v1/keys',
      doc: keyDocs.list,
      access: 'management',
      async handle(exchange, { tenantId }) {
        const { query } = exchange;
        const offset = readOffset(query);
        const { include_disabled } = keyDocs.list.query;
        const includeDisabled = readParameter(query, 'include_disabled', include_disabled) ?? false;
        const data = await manage.listKeys(desk, tenantId, { offset, includeDisabled });
        return json(exchange, { data });
      },
    },
  ];
}

function recordRoutes(desk: KeyParts): Route[] {
  return [
    {
      method: 'GET',
      path: '/api/v1/keys/:id',
      doc: keyDocs.show,
      access: 'management',
      async handle(exchange, { tenantId }) {
        const data = await manage.showKey(desk, tenantId, exchange.param('id'));
        return json(exchange, { data });
      },
    },
    {
      method: 'PATCH',
      path: '/api/v1/keys/:id',
      doc: keyDocs.change,
      access: 'management',
      async handle(exchange, { tenantId }) {
        const body = await readManagementBody(exchange);
        const data = await manage.changeKey(desk, tenantId, exchange.param('id'), body);
        await desk.noticeChange();
        return json(exchange, { data });
      },
    },
    {
      method: 'DELETE',
      path: '/api/v1/keys/:id',
      doc: keyDocs.delete,
      access: 'management',
      async handle(exchange, { tenantId }) {
        await manage.deleteKey(desk, tenantId, exchange.param('id'));
        await desk.noticeChange();
        return json(exchange, { deleted: true });
      },
    },
    {
      method: 'POST',
      path: '/api/v1/keys/:id/rotate',
      doc: keyDocs.rotate,
      access: 'management',
      async handle(exchange, { tenantId }) {
        const body = await readManagementBody(exchange);
        const { key, text } = await manage.rotateKey(desk, tenantId, exchange.param('id'), body);
        await desk.noticeChange();
        return json(exchange, { data: key, key: text });
      },
    },
    // Any key may look at itself, whatever its scopes: clients ask it for what is left to spend.
    {
      method: 'GET',
      path: '/v1/key',
      doc: keyDocs.itself,
      access: 'either',
      async handle(exchange, { tenantId, keyId }) {
        return json(exchange, { data: await manage.showKey(desk, tenantId, keyId) });
      },
    },
  ];
}
