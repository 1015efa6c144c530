import { deletedObject } from '../../contract/fields.ts';
import { skillDocs } from '../../contract/skills.ts';
import type { SkillService } from '../../tools/skills/skill-service.ts';
import { readManagementBody } from '../body/body.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';

const anyKey = routesFor({ access: 'either', scope: 'customer' });

/**
 * Skill management. The tenant is always the caller's, never a parameter. Routing keys may write
 * skills, too: skills are part of prompts, which these keys write anyway.
 */
export function skillRoutes(service: SkillService): Route[] {
  return [
    anyKey.get('/v1/customer/skills', skillDocs.list, async (exchange, { tenantId }) => {
      return json(exchange, { data: await service.list(tenantId) });
    }),
    anyKey.get('/v1/customer/skills/:name', skillDocs.show, async (exchange, { tenantId }) => {
      return json(exchange, { data: await service.show(tenantId, exchange.param('name')) });
    }),
    anyKey.put('/v1/customer/skills/:name', skillDocs.put, async (exchange, { tenantId }) => {
      const body = await readManagementBody(exchange);
      return json(exchange, { data: await service.put(tenantId, exchange.param('name'), body) });
    }),
    anyKey.delete('/v1/customer/skills/:name', skillDocs.delete, async (exchange, { tenantId }) => {
      await service.delete(tenantId, exchange.param('name'));
      return json(exchange, deletedObject);
    }),
  ];
}
