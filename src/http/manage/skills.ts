import type { SkillDesk } from '../../tools/skills/skill-desk.ts';
import { readManagementBody } from '../body/body.ts';
import { skillDocs } from '../openapi/skills.ts';
import { json } from '../reply.ts';
import type { Route } from '../routes.ts';

/**
 * A tenant's skills. The tenant is always the caller's, never an input. Applications may write them
 * too: they are part of a prompt, which is theirs to write anyway.
 */
export function skillRoutes(desk: SkillDesk): Route[] {
  const open = { access: 'either', scope: 'customer' } as const;
  return [
    {
      ...open,
      method: 'GET',
      path: '/v1/customer/skills',
      doc: skillDocs.list,
      async handle(exchange, { tenantId }) {
        return json(exchange, { data: await desk.list(tenantId) });
      },
    },
    {
      ...open,
      method: 'GET',
      path: '/v1/customer/skills/:name',
      doc: skillDocs.show,
      async handle(exchange, { tenantId }) {
        return json(exchange, { data: await desk.show(tenantId, exchange.param('name')) });
      },
    },
    {
      ...open,
      method: 'PUT',
      path: '/v1/customer/skills/:name',
      doc: skillDocs.put,
      async handle(exchange, { tenantId }) {
        const body = await readManagementBody(exchange);
        return json(exchange, { data: await desk.put(tenantId, exchange.param('name'), body) });
      },
    },
    {
      ...open,
      method: 'DELETE',
      path: '/v1/customer/skills/:name',
      doc: skillDocs.delete,
      async handle(exchange, { tenantId }) {
        await desk.delete(tenantId, exchange.param('name'));
        return json(exchange, { deleted: true });
      },
    },
  ];
}
