import type { Caller, Scope } from '../core/caller.ts';
import type { ErrorShape, Exchange } from './exchange.ts';
import type { RouteDoc } from './openapi/doc.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

interface RouteShape {
  readonly method: Method;
  /** As normalised by paths.ts; `:name` is one segment, a final `:name{.+}` takes the rest. */
  readonly path: string;
  readonly errorShape?: ErrorShape;
  /** For the reference; a test fails where it is missing. */
  readonly doc?: RouteDoc;
}

/** Open to anybody: probes, pages, signed links. The list is short on purpose. */
interface PublicRoute extends RouteShape {
  readonly access: 'public';
  handle(exchange: Exchange): Response | Promise<Response>;
}

/** Open to the operator's admin token only. */
interface AdminRoute extends RouteShape {
  readonly access: 'admin';
  handle(exchange: Exchange): Response | Promise<Response>;
}

/**
 * Open to a tenant's key. `routing`: an application's key with the scope. `management`: the
 * tenant's manager. `either`: what both may do.
 */
export interface KeyedRoute extends RouteShape {
  readonly access: 'routing' | 'management' | 'either';
  readonly scope?: Scope;
  handle(exchange: Exchange, caller: Caller): Response | Promise<Response>;
}

/** A route without an access rule does not compile: routes are closed by default. */
export type Route = PublicRoute | AdminRoute | KeyedRoute;

/** What the routes of one family share: who may call them, and how they are refused. */
type Family<R extends Route> = Omit<R, 'method' | 'path' | 'doc' | 'handle'>;

type Makers<R extends Route> = Readonly<
  Record<Lowercase<Method>, (path: string, doc: RouteDoc, handle: R['handle']) => Route>
>;

/** `const admin = routesFor({ access: 'admin' })` makes `admin.get('/admin/v1/…', doc, handle)`. */
export function routesFor(family: Family<PublicRoute>): Makers<PublicRoute>;
export function routesFor(family: Family<AdminRoute>): Makers<AdminRoute>;
export function routesFor(family: Family<KeyedRoute>): Makers<KeyedRoute>;
export function routesFor(family: Family<Route>): Makers<Route> {
  const by = (method: Method) => (path: string, doc: RouteDoc, handle: Route['handle']) =>
    ({ ...family, method, path, doc, handle }) as Route;
  return {
    get: by('GET'),
    post: by('POST'),
    put: by('PUT'),
    patch: by('PATCH'),
    delete: by('DELETE'),
  };
}
