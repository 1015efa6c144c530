import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Route } from '../../src/http/routes.ts';

/** Every route of src/http; what a handler would need is not touched before a call. */
export async function routesInCode(): Promise<Route[]> {
  const folder = join(import.meta.dir, '../../src/http');
  const files = readdirSync(folder).filter((name) => /(?<!\.test)\.ts$/.test(name));
  const routes: Route[] = [];
  for (const file of files) {
    const exported: Record<string, unknown> = await import(join(folder, file));
    for (const [name, factory] of Object.entries(exported)) {
      if (!name.endsWith('Routes') || typeof factory !== 'function') continue;
      routes.push(...(factory as (parts: object) => readonly Route[])({}));
    }
  }
  return routes;
}
