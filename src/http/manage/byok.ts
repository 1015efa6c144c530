import * as manage from '../../auth/manage/byok.ts';
import { readManagementBody } from '../body/body.ts';
import { byokDocs } from '../openapi/keys.ts';
import { json } from '../reply.ts';
import type { Route } from '../routes.ts';

/** A tenant's own accounts at providers. The tenant is always the caller's, never an input. */
export function byokRoutes(desk: manage.ByokDesk): Route[] {
  return [
    {
      method: 'GET',
      path: '/api/v1/byok',
      doc: byokDocs.list,
      access: 'management',
      async handle(exchange, { tenantId }) {
        const data = await manage.listCredentials(desk, tenantId);
        const providers = [...desk.providers].map(([name, { byokBaseUrl }]) => ({
          name,
          takes_base_url: byokBaseUrl,
        }));
        return json(exchange, { data, providers });
      },
    },
    {
      method: 'GET',
      path: '/api/v1/byok/:provider',
      doc: byokDocs.show,
      access: 'management',
      async handle(exchange, { tenantId }) {
        const data = await manage.showCredential(desk, tenantId, exchange.param('provider'));
        return json(exchange, { data });
      },
    },
    {
      method: 'PUT',
      path: '/api/v1/byok/:provider',
      doc: byokDocs.set,
      access: 'management',
      async handle(exchange, { tenantId }) {
        const body = await readManagementBody(exchange);
        const provider = exchange.param('provider');
        return json(exchange, { data: await manage.setCredential(desk, tenantId, provider, body) });
      },
    },
    {
      method: 'DELETE',
      path: '/api/v1/byok/:provider',
      doc: byokDocs.delete,
      access: 'management',
      async handle(exchange, { tenantId }) {
        await manage.deleteCredential(desk, tenantId, exchange.param('provider'));
        return json(exchange, { deleted: true });
      },
    },
  ];
}
