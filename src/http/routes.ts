import type { ErrorShape } from '../contract/errors.ts';
import type { RouteDoc } from '../contract/route-doc.ts';
import type { Caller, Scope } from '../core/caller.ts';
import { invalidRequest } from '../core/errors.ts';
import { newRequestId } from '../core/ids.ts';
import type { AuditedChange } from './audit.ts';
import { normalizePath } from './paths.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

interface RouteShape {
  readonly method: Method;
  /**
   * Normalized by paths.ts. `:name` is one segment; a final `:name{.+}` is the rest of the path.
   */
  readonly path: string;
  readonly errorShape?: ErrorShape;
  /** Describes the route in OpenAPI. A test fails if it is missing. */
  readonly doc?: RouteDoc;
}

/** Open to everyone: probes, pages, signed links. Keep this list short. */
interface PublicRoute extends RouteShape {
  readonly access: 'public';
  handle(exchange: Exchange): Response | Promise<Response>;
}

/** Requires the operator's admin token. */
interface AdminRoute extends RouteShape {
  readonly access: 'admin';
  handle(exchange: Exchange): Response | Promise<Response>;
}

/** Requires a tenant's key of this kind; a routing key must also have the scope, if one is set. */
export interface KeyedRoute extends RouteShape {
  readonly access: 'routing' | 'management' | 'either';
  readonly scope?: Scope;
  handle(exchange: Exchange, caller: Caller): Response | Promise<Response>;
}

/** `access` is required, so a route without an access rule doesn't compile. */
export type Route = PublicRoute | AdminRoute | KeyedRoute;

/** What the routes of one group share: access rule, scope, and error shape. */
type RouteGroup<R extends Route> = Omit<R, 'method' | 'path' | 'doc' | 'handle'>;

type RouteBuilders<R extends Route> = Readonly<
  Record<Lowercase<Method>, (path: string, doc: RouteDoc, handle: R['handle']) => Route>
>;

/** Returns route builders: `routesFor({ access: 'admin' }).get('/admin/v1/…', doc, handle)`. */
export function routesFor(group: RouteGroup<PublicRoute>): RouteBuilders<PublicRoute>;
export function routesFor(group: RouteGroup<AdminRoute>): RouteBuilders<AdminRoute>;
export function routesFor(group: RouteGroup<KeyedRoute>): RouteBuilders<KeyedRoute>;
export function routesFor(group: RouteGroup<Route>): RouteBuilders<Route> {
  const builderFor = (method: Method) => (path: string, doc: RouteDoc, handle: Route['handle']) =>
    ({ ...group, method, path, doc, handle }) as Route;
  return {
    get: builderFor('GET'),
    post: builderFor('POST'),
    put: builderFor('PUT'),
    patch: builderFor('PATCH'),
    delete: builderFor('DELETE'),
  };
}

/** A route that matched a request. */
export interface Match {
  readonly route: Route;
  /** Method and path as in the route table. */
  readonly pattern: string;
  param(name: string): string;
}

/** Paths of OpenAI's API, or of this gateway, that Anthropic's API has, too. */
const sharedPath = /^\/v1\/(?:models|files|skills)(?:\/|$)/;

/** One HTTP request and the state of its response, independent of the web framework. */
export class Exchange {
  readonly request: Request;
  readonly requestId = newRequestId();
  /** Normalized, as in the route table. */
  readonly path: string;
  /** True if the client used OpenRouter's form of the path. */
  readonly openRouterStyle: boolean;
  /**
   * True for clients of the Anthropic API. Set before the route is matched, so that every error,
   * even a 404, has the shape that these clients expect.
   */
  readonly isAnthropicClient: boolean;
  errorShape: ErrorShape;
  /** Headers of the response, including error responses. */
  readonly headers: Record<string, string>;
  /** Who made the request, once it is authenticated: a key ID, or `admin`. */
  actor = 'unknown';
  /** The change that this request made, for the audit log. */
  change: AuditedChange | undefined;
  /** The length of a response body that isn't streamed. */
  responseLength: number | undefined;
  /** Returns the address at the other end of the connection. */
  peer: () => string | undefined = () => undefined;
  /** Sets how many seconds the connection may be idle; 0 means no limit. */
  setIdleTimeout: (seconds: number) => void = () => undefined;
  /** Logs why a response failed after it had started. */
  reportLateError: (exchange: Exchange, error: unknown) => void = ignoreLateError;
  #match: Match | undefined;

  constructor(request: Request) {
    this.request = request;
    const { path, openRouterStyle, anthropicStyle } = normalizePath(pathOf(request.url));
    this.path = path;
    this.openRouterStyle = openRouterStyle;
    // OpenAI and Anthropic clients use these paths; only this header differs.
    const isShared = sharedPath.test(path);
    this.isAnthropicClient =
      anthropicStyle || (isShared && request.headers.has('anthropic-version'));
    // OpenRouter's SDKs accept only a number as the code.
    const ownShape = openRouterStyle ? 'chat' : 'plain';
    this.errorShape = this.isAnthropicClient ? 'messages' : ownShape;
    this.headers = {
      'x-request-id': this.requestId,
      // Anthropic's SDKs read this header.
      'request-id': this.requestId,
      'x-content-type-options': 'nosniff',
      // Some key headers are unknown to caches, and secrets must not be cached.
      'cache-control': 'no-store',
    };
    if (isForBrowsers(path)) {
      // Keys are bearer tokens and there are no cookies, so every origin is allowed.
      this.headers['access-control-allow-origin'] = '*';
      this.headers['access-control-expose-headers'] = '*';
    }
  }

  /** True if web pages of other origins may use this path. */
  get allowsOrigins(): boolean {
    return 'access-control-allow-origin' in this.headers;
  }

  setMatch(match: Match): void {
    this.#match = match;
    this.errorShape = match.route.errorShape ?? this.errorShape;
  }

  /** The pattern of the route, for metrics. It never contains the client's own path. */
  get pattern(): string {
    return this.#match?.pattern ?? 'none none';
  }

  /** Returns a decoded path parameter. Throws 400. */
  param(name: string): string {
    try {
      return decodeURIComponent(this.#match?.param(name) ?? '');
    } catch {
      throw invalidRequest('The path has invalid percent-encoding.');
    }
  }

  get query(): URLSearchParams {
    return this.#url.searchParams;
  }

  /** The origin that the client used. */
  get origin(): string {
    return this.#url.origin;
  }

  get #url(): URL {
    const { url } = this.request;
    // The host may be invalid, such as `:80`, even if the path and query are valid.
    return URL.parse(url, defaultOrigin) ?? new URL(defaultOrigin + afterHost(url));
  }
}

/** Returns whether the path is part of the API. Web pages must not read metrics or call /admin. */
function isForBrowsers(path: string): boolean {
  return path.startsWith('/v1/') || path.startsWith('/api/v1/') || path === '/openapi.json';
}

function ignoreLateError(): void {}

/** For requests without a Host header, such as HTTP/1.0 health checks of load balancers. */
const defaultOrigin = 'http://localhost';

const pathEnd = /[?#]/;

/** Returns the path of a URL without the cost of a URL object. */
function pathOf(url: string): string {
  const rest = afterHost(url);
  const end = rest.search(pathEnd);
  return (end === -1 ? rest : rest.slice(0, end)) || '/';
}

function afterHost(url: string): string {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('//') + 2);
  return start === -1 ? '' : url.slice(start);
}
