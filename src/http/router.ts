import type { ParamIndexMap, ParamStash } from 'hono/router';
import { RegExpRouter } from 'hono/router/reg-exp-router';
import { type NamedRoute, nearestRoute, suggestionFor, toNamedRoute } from './not-found.ts';
import type { Match, Method, Route } from './routes.ts';

const noParam = (): string => '';

function patternOf({ method, path }: Route): string {
  return `${method} ${path}`;
}

/** Matches requests to routes with Hono's router. */
export class Router {
  readonly #router = new RegExpRouter<Route>();
  readonly #namedRoutes: readonly NamedRoute[];
  /** Routes without parameters. They get most of the traffic and need only a map lookup. */
  readonly #fixed = new Map<string, Match>();

  constructor(routes: readonly Route[]) {
    this.#namedRoutes = routes.map(toNamedRoute);
    for (const route of routes) {
      if (route.path.includes(':')) this.#router.add(route.method, route.path, route);
      else this.#fixed.set(patternOf(route), { route, pattern: patternOf(route), param: noParam });
    }
  }

  match(method: string, path: string): Match | undefined {
    return this.#fixed.get(`${method} ${path}`) ?? this.#matchPattern(method, path);
  }

  /**
   * Returns the methods that a path supports, for the `Allow` header of a 405. An endpoint of
   * another API supports none, even if a route's parameter matches its path.
   */
  methodsOf(path: string): Method[] {
    if (suggestionFor(path) !== undefined) return [];
    const methods: Method[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];
    return methods.filter((method) => this.match(method, path) !== undefined);
  }

  /** Returns a suggestion to append to the error message, with a leading space, or ''. */
  hint(method: string, path: string): string {
    const suggestion = suggestionFor(path);
    if (suggestion !== undefined) return ` ${suggestion}`;
    const nearest = nearestRoute(method, path, this.#namedRoutes);
    if (!nearest) return '';
    // Remove the patterns of path parameters, such as `{.+}`.
    const name = patternOf(nearest.route).replace(/\{[^}]*\}/g, '');
    if (nearest.isSimilar) return ` Did you mean ${name}?`;
    const docsRoute = 'GET /docs';
    const docsHint =
      name !== docsRoute && this.#fixed.has(docsRoute) ? `; ${docsRoute} lists all routes` : '';
    return ` The nearest route is ${name}${docsHint}.`;
  }

  #matchPattern(method: string, path: string): Match | undefined {
    const [[found], captured] = this.#router.match(method, path) as [
      [Route, ParamIndexMap][],
      ParamStash,
    ];
    if (!found) return undefined;
    const [route, paramIndexes] = found;
    const param = (name: string) => captured[paramIndexes[name] ?? -1] ?? '';
    return { route, pattern: patternOf(route), param };
  }
}
