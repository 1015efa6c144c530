import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Route } from '../../src/http/routes.ts';

type Factory = (deps: object) => readonly Route[];

const folder = join(import.meta.dir, '../../src/http');

/** Returns all functions in src/http that create routes, by name. */
export async function routeFactories(): Promise<ReadonlyMap<string, Factory>> {
  const names = readdirSync(folder, { encoding: 'utf8', recursive: true });
  const files = names.filter((name) => /(?<!\.test)\.ts$/.test(name));
  const exported: Record<string, unknown>[] = await Promise.all(
    files.map((file) => import(join(folder, file))),
  );
  const isFactory = (entry: [string, unknown]): entry is [string, Factory] =>
    entry[0].endsWith('Routes') && typeof entry[1] === 'function';
  return new Map(exported.flatMap((values) => Object.entries(values).filter(isFactory)));
}

/** Returns all routes of src/http. Factories get no dependencies: only handlers need them. */
export async function routesInCode(): Promise<Route[]> {
  return [...(await routeFactories()).values()].flatMap((factory) => factory({}));
}
