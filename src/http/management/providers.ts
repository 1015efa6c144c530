import { Compile } from 'typebox/schema';
import {
  type ProviderTestBody,
  type ProviderTestObject,
  providerDocs,
  providerTestSchema,
} from '../../contract/provider-calls.ts';
import { rotateProviderKey } from '../../control/key-rotation.ts';
import { notFound } from '../../core/errors.ts';
import { validate } from '../../core/schema.ts';
import { readManagementBody } from '../body/body.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';
import { type ConfigRouteDeps, preconditionOf, resourceOf } from './config.ts';

export interface ProviderRouteDeps extends ConfigRouteDeps {
  /** Returns undefined if there is no such provider. Throws 400. */
  testProvider(name: string, body: ProviderTestBody): Promise<ProviderTestObject | undefined>;
}

const admin = routesFor({ access: 'admin' });
const testCheck = Compile(providerTestSchema);

/** The routes that test a provider and rotate its keys. */
export function providerRoutes(deps: ProviderRouteDeps): Route[] {
  return [
    admin.post('/admin/v1/providers/:name/test', providerDocs.test, async (exchange) => {
      const name = exchange.param('name');
      const body = validate(
        testCheck,
        providerTestSchema,
        (await readManagementBody(exchange)) ?? {},
      );
      const data = await deps.testProvider(name, body);
      if (!data) throw notFound(`There is no provider "${name.slice(0, 100)}".`);
      return json(exchange, { data });
    }),
    admin.post('/admin/v1/providers/:name/rotate', providerDocs.rotate, async (exchange) => {
      const name = exchange.param('name');
      const body = await readManagementBody(exchange);
      const object = await rotateProviderKey(deps, name, body, preconditionOf(exchange));
      exchange.headers.etag = `"${object.stored?.version}"`;
      return json(exchange, { data: resourceOf('provider', object, deps) });
    }),
  ];
}
