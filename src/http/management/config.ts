import { Compile } from 'typebox/schema';
import type { Config } from '../../config/config.ts';
import { configKinds, isKindName, type KindName } from '../../config/kinds.ts';
import { priceName, priceSchema } from '../../config/price-schema.ts';
import type { ProviderStateObject } from '../../contract/admin.ts';
import { configDocs, newPriceDoc, restoreDoc, restoreSchema } from '../../contract/config.ts';
import { deletedObject } from '../../contract/fields.ts';
import type { AuditEntry, AuditReads } from '../../control/audit.ts';
import {
  type ConfigObject,
  type ConfigServiceDeps,
  deleteObject,
  listObjects,
  type Precondition,
  patchObject,
  putObject,
  showObject,
} from '../../control/config-service.ts';
import { listPriceObjects, ownershipOf, priceObject } from '../../control/listed-prices.ts';
import { soonestStart } from '../../control/start-times.ts';
import { invalidRequest, notFound } from '../../core/errors.ts';
import { validationError } from '../../core/schema.ts';
import { readManagementBody } from '../body/body.ts';
import { json } from '../reply.ts';
import { type Exchange, type Route, routesFor } from '../routes.ts';

export interface ConfigRouteDeps extends ConfigServiceDeps {
  readonly audit: AuditReads;
  /** Returns the health of each provider that this process calls, by name. */
  providerStates(): ReadonlyMap<string, ProviderStateObject>;
  /** Returns whether every tenant can call the model. */
  isCallable(modelId: string): boolean;
  /** Returns the configuration in use. */
  current(): Config;
}

const admin = routesFor({ access: 'admin' });
const restoreValidator = Compile(restoreSchema);

/** The routes of all kinds of configuration objects. */
export function configRoutes(deps: ConfigRouteDeps): Route[] {
  const kinds = Object.keys(configDocs) as (keyof typeof configDocs)[];
  return [
    ...kinds.flatMap((kind) => kindRoutes(kind, deps)),
    newPriceRoute(deps),
    restoreRoute(deps),
  ];
}

function newPriceRoute(deps: ConfigRouteDeps): Route {
  return admin.post('/admin/v1/prices', newPriceDoc, async (exchange) => {
    const body = await readManagementBody(exchange);
    // The name has to be valid before the document can be checked with it.
    if (!newPriceCheck.Check(body)) throw validationError(priceSchema, body);
    const document = { ...body, from: body.from ?? soonestStart(deps.now()) };
    const id = { kind: 'price', name: priceName(document) } as const;
    const { object } = await putObject(deps, id, document, { isNew: true });
    if (object.stored) exchange.headers.etag = `"${object.stored.version}"`;
    return json(exchange, { data: resourceOf('price', object, deps) }, 201);
  });
}

const newPriceCheck = Compile(priceSchema);

function restoreRoute(deps: ConfigRouteDeps): Route {
  return admin.post('/admin/v1/audit/:id/restore', restoreDoc, async (exchange) => {
    const body = (await readManagementBody(exchange)) ?? {};
    if (!restoreValidator.Check(body)) throw validationError(restoreSchema, body);
    const entry = await findEntry(deps.audit, exchange.param('id'));
    const [kind = ''] = entry.action.split('.');
    if (!isKindName(kind)) {
      throw invalidRequest(`${entry.action} isn't a change of the configuration.`, 'id');
    }
    const id = { kind, name: entry.target };
    const state = body.state === 'after' ? entry.after : entry.before;
    const precondition = preconditionOf(exchange);
    if (state === null) {
      await deleteObject(deps, id, precondition);
      return json(exchange, deletedObject);
    }
    const { object } = await putObject(deps, id, state, precondition);
    return json(exchange, { data: resourceOf(kind, object, deps) });
  });
}

/** Throws 404. */
async function findEntry(audit: AuditReads, id: string): Promise<AuditEntry> {
  const number = /^\d{1,15}$/.test(id) ? Number(id) : 0;
  const all = { from: 0, until: Number.MAX_SAFE_INTEGER };
  const filter = { ...all, action: null, actor: null, tenantId: null, target: null };
  const [entry] = await audit.list(filter, number + 1, 1);
  if (entry?.id === number) return entry;
  throw notFound(`The audit log has no entry ${id.slice(0, 100)}.`);
}

function kindRoutes(kind: KindName, deps: ConfigRouteDeps): Route[] {
  const { plural, pathParameter } = configKinds[kind];
  const docs = configDocs[kind];
  const list = `/admin/v1/${plural}`;
  const one = `${list}/${pathParameter}`;
  const idIn = (exchange: Exchange) => ({ kind, name: exchange.param('name') });
  const reply = (exchange: Exchange, object: ConfigObject, status = 200) => {
    if (object.stored) exchange.headers.etag = `"${object.stored.version}"`;
    return json(exchange, { data: resourceOf(kind, object, deps) }, status);
  };
  return [
    admin.get(list, docs.list, async (exchange) => {
      if (kind === 'price') {
        return json(exchange, { data: await listPriceObjects(deps, deps.current()) });
      }
      const objects = await listObjects(deps, kind);
      const resources = objects.map((object) => resourceOf(kind, object, deps));
      return json(exchange, { data: [...resources, ...unownedProviders(kind, objects, deps)] });
    }),
    admin.get(one, docs.show, async (exchange) =>
      reply(exchange, await showObject(deps, kind, exchange.param('name'))),
    ),
    admin.put(one, docs.put, async (exchange) => {
      const body = await readManagementBody(exchange);
      const changed = await putObject(deps, idIn(exchange), body, preconditionOf(exchange));
      return reply(exchange, changed.object, changed.isNew ? 201 : 200);
    }),
    admin.patch(one, docs.patch, async (exchange) => {
      const body = await readManagementBody(exchange);
      const changed = await patchObject(deps, idIn(exchange), body, preconditionOf(exchange));
      return reply(exchange, changed.object);
    }),
    admin.delete(one, docs.delete, async (exchange) => {
      await deleteObject(deps, idIn(exchange), preconditionOf(exchange));
      return json(exchange, deletedObject);
    }),
  ];
}

export function resourceOf(kind: KindName, object: ConfigObject, deps: ConfigRouteDeps): object {
  const { name, document } = object;
  const owner = ownershipOf(object, deps);
  switch (kind) {
    case 'provider':
      return { ...providerState(name, document.dialect, deps), ...owner, config: document };
    case 'model':
      return { name, live: deps.isCallable(name), ...owner, config: document };
    case 'price':
      return priceObject(object, deps.current(), deps);
    case 'alias':
    case 'plan':
      return { name, ...owner, config: document };
    case 'setting':
      return { name, ...owner, value: document.value };
  }
}

function providerState(name: string, dialect: unknown, deps: ConfigRouteDeps): ProviderStateObject {
  const known = deps.providerStates().get(name);
  if (known) return known;
  const none = { circuit: 'closed', recent: null, endpoints: [], keys: [] } as const;
  return { name, dialect: String(dialect ?? ''), ...none };
}

/** Returns providers that nobody can configure, such as the demo. */
function unownedProviders(
  kind: KindName,
  objects: readonly ConfigObject[],
  deps: ConfigRouteDeps,
): object[] {
  if (kind !== 'provider') return [];
  const names = new Set(objects.map(({ name }) => name));
  const owner = ownershipOf({ name: '', owner: 'built_in', document: {}, stored: null }, deps);
  return [...deps.providerStates().values()]
    .filter(({ name }) => !names.has(name))
    .map((state) => ({ ...state, ...owner, config: {} }));
}

const entityTag = /^(?:W\/)?"(\d+)"$/;

/** Reads `If-Match` and `If-None-Match`. Throws 400. */
export function preconditionOf({ request }: Exchange): Precondition {
  const match = request.headers.get('if-match');
  const noneMatch = request.headers.get('if-none-match');
  if (noneMatch !== null && noneMatch.trim() !== '*') {
    throw invalidRequest('If-None-Match must be * for a change.', 'If-None-Match');
  }
  const isNew = noneMatch !== null;
  if (match === null) return { isNew };
  if (match.trim() === '*') return { isNew, match: 'any' };
  const versions = match.split(',').map((tag) => entityTag.exec(tag.trim())?.[1]);
  if (versions.includes(undefined)) {
    throw invalidRequest('If-Match must be "<version>", as in the ETag header.', 'If-Match');
  }
  return { isNew, match: versions.map(Number) };
}
