import * as manage from '../../auth/management/byok.ts';
import { byokDocs, type CredentialListObject } from '../../contract/byok.ts';
import { deletedObject } from '../../contract/fields.ts';
import { readManagementBody } from '../body/body.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';

const management = routesFor({ access: 'management' });

/** Tenants' own provider keys. The tenant is always the caller's, never a parameter. */
export function byokRoutes(service: manage.ByokService): Route[] {
  return [
    management.get('/api/v1/byok', byokDocs.list, async (exchange, { tenantId }) => {
      const data = await manage.listCredentials(service, tenantId);
      const providers = [...service.providers].map(([name, { byokBaseUrl }]) => ({
        name,
        takes_base_url: byokBaseUrl,
      }));
      const list: CredentialListObject = { data, providers };
      return json(exchange, list);
    }),
    management.get('/api/v1/byok/:provider', byokDocs.show, async (exchange, { tenantId }) => {
      const data = await manage.showCredential(service, tenantId, exchange.param('provider'));
      return json(exchange, { data });
    }),
    management.put('/api/v1/byok/:provider', byokDocs.set, async (exchange, { tenantId }) => {
      const body = await readManagementBody(exchange);
      const provider = exchange.param('provider');
      const data = await manage.setCredential(service, tenantId, provider, body);
      exchange.change = { action: 'provider_key.set', tenant: tenantId, target: provider };
      return json(exchange, { data });
    }),
    management.delete('/api/v1/byok/:provider', byokDocs.delete, async (exchange, { tenantId }) => {
      const provider = exchange.param('provider');
      await manage.deleteCredential(service, tenantId, provider);
      exchange.change = { action: 'provider_key.delete', tenant: tenantId, target: provider };
      return json(exchange, deletedObject);
    }),
  ];
}
