import type { RouteDoc } from '../contract/route-doc.ts';
import type { Caller, Scope } from '../core/caller.ts';
import { invalidRequest } from '../core/errors.ts';
import { newRequestId } from '../core/ids.ts';
import { normalizePath } from './paths.ts';
import type { Match } from './router.ts';

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
type RouteGroup<R extends Route> = Omit<R, 'method' | 'path' | 'doc' | 'handle'>;

type RouteBuilders<R extends Route> = Readonly<
  Record<Lowercase<Method>, (path: string, doc: RouteDoc, handle: R['handle']) => Route>
>;

/** `const admin = routesFor({ access: 'admin' })` makes `admin.get('/admin/v1/…', doc, handle)`. */
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

/** How an error body looks to the client at hand. */
export type ErrorShape = 'plain' | 'images' | 'messages';

/** One HTTP request on its way through. Handlers see this and nothing of the web framework. */
export class Exchange {
  readonly request: Request;
  readonly requestId = newRequestId();
  /** As the route table spells it. */
  readonly path: string;
  /** Whether the client used OpenRouter's spelling of the path. */
  readonly openRouterStyle: boolean;
  /**
   * Whether an Anthropic client asks. Known before the route is, so that any error has its shape.
   */
  readonly isAnthropicClient: boolean;
  errorShape: ErrorShape;
  /** Headers that every answer to this request carries, whatever becomes of it. */
  readonly headers: Record<string, string>;
  /** The length of an answer that is sent whole; undefined where it goes out piece by piece. */
  responseLength: number | undefined;
  /** Sets for how many seconds from now the connection may be silent; 0: for ever. */
  setIdleTimeout: (seconds: number) => void = () => undefined;
  /** Tells the operator why an answer failed after it had begun. One function for all exchanges. */
  reportLateError: (exchange: Exchange, error: unknown) => void = ignoreLateError;
  #match: Match | undefined;

  constructor(request: Request) {
    this.request = request;
    const { path, openRouterStyle, anthropicStyle } = normalizePath(pathOf(request.url));
    this.path = path;
    this.openRouterStyle = openRouterStyle;
    // Clients of both families list models at one address, where only a header tells them apart.
    const isShared = path.startsWith('/v1/models');
    this.isAnthropicClient =
      anthropicStyle || (isShared && request.headers.has('anthropic-version'));
    this.errorShape = this.isAnthropicClient ? 'messages' : 'plain';
    this.headers = {
      'x-request-id': this.requestId,
      // SDKs of the two families each read their own request-id header.
      'request-id': this.requestId,
      // Keys are bearer tokens and there are no cookies, so any origin may ask.
      'access-control-allow-origin': '*',
      'access-control-expose-headers': '*',
      // Not every key comes in a header that caches recognise, and secrets are shown only once.
      'cache-control': 'no-store',
    };
  }

  setMatch(match: Match): void {
    this.#match = match;
    this.errorShape = match.route.errorShape ?? this.errorShape;
  }

  /** The route as its table spells it, for counting: never what the client wrote. */
  get pattern(): string {
    return this.#match?.pattern ?? 'none none';
  }

  /** A variable part of the path, decoded. */
  param(name: string): string {
    try {
      return decodeURIComponent(this.#match?.param(name) ?? '');
    } catch {
      throw invalidRequest('The path has a broken percent-encoding.');
    }
  }

  get query(): URLSearchParams {
    return this.#url.searchParams;
  }

  /** The origin by which the client reached us. */
  get origin(): string {
    return this.#url.origin;
  }

  get #url(): URL {
    const { url } = this.request;
    // The host can be invalid, such as `:80`; the path and query are clear all the same.
    return URL.parse(url, defaultOrigin) ?? new URL(defaultOrigin + afterHost(url));
  }
}

function ignoreLateError(): void {}

/** For requests that name no host: HTTP/1.0 allows it, and health checks of balancers speak it. */
const defaultOrigin = 'http://localhost';

const pathEnd = /[?#]/;

/** The path of a URL, without building a URL object on every request. */
function pathOf(url: string): string {
  const rest = afterHost(url);
  const end = rest.search(pathEnd);
  return (end === -1 ? rest : rest.slice(0, end)) || '/';
}

function afterHost(url: string): string {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('//') + 2);
  return start === -1 ? '' : url.slice(start);
}
