import type { ParamIndexMap, ParamStash, Params } from 'hono/router';
import { RegExpRouter } from 'hono/router/reg-exp-router';
import { SmartRouter } from 'hono/router/smart-router';
import { TrieRouter } from 'hono/router/trie-router';
import { nearest } from '../core/nearest.ts';
import type { Method, Route } from './routes.ts';

export interface Match {
  readonly route: Route;
  param(name: string): string;
}

const noParam = (): string => '';

/** The route table, compiled. Matching is Hono's; what a match means is ours. */
export class Router {
  readonly #router = new SmartRouter<Route>({ routers: [new RegExpRouter(), new TrieRouter()] });
  readonly #routes: readonly Route[];
  /** Most traffic goes to a handful of fixed paths; they need no pattern. */
  readonly #fixed = new Map<string, Match>();

  constructor(routes: readonly Route[]) {
    this.#routes = routes;
    for (const route of routes) {
      if (route.path.includes(':')) this.#router.add(route.method, route.path, route);
      else this.#fixed.set(`${route.method} ${route.path}`, { route, param: noParam });
    }
    // An empty router cannot be matched against.
    if (!routes.some((route) => route.path.includes(':'))) {
      const [first] = routes;
      if (first) this.#router.add(first.method, first.path, first);
    }
  }

  match(method: string, path: string): Match | undefined {
    return this.#fixed.get(`${method} ${path}`) ?? this.#matchPattern(method, path);
  }

  /** The methods a path does answer, for `405 Allow`. */
  methodsOf(path: string): Method[] {
    const methods: Method[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];
    return methods.filter((method) => this.match(method, path) !== undefined);
  }

  /** «Did you mean»: the route whose path is closest to a mistyped one. */
  suggest(method: string, path: string): string | undefined {
    const pathsOf = (routes: readonly Route[]) =>
      nearest(
        path,
        routes.map((route) => route.path),
      );
    const close = pathsOf(this.#routes.filter((route) => route.method === method));
    if (close !== undefined) return `${method} ${close}`;
    const other = pathsOf(this.#routes);
    const route = this.#routes.find((known) => known.path === other);
    return route && `${route.method} ${route.path}`;
  }

  #matchPattern(method: string, path: string): Match | undefined {
    const [handlers, stash] = this.#router.match(method, path) as [
      [Route, Params | ParamIndexMap][],
      ParamStash | undefined,
    ];
    const [found] = handlers;
    if (!found) return undefined;
    const [route, params] = found;
    return {
      route,
      param(name) {
        const value = params[name];
        return (typeof value === 'number' ? stash?.[value] : value) ?? '';
      },
    };
  }
}
