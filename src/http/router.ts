import type { ParamIndexMap, ParamStash } from 'hono/router';
import { RegExpRouter } from 'hono/router/reg-exp-router';
import { nearestRoute, suggestionFor } from './not-found.ts';
import type { Method, Route } from './routes.ts';

export interface Match {
  readonly route: Route;
  /** Method and path as in the table. */
  readonly pattern: string;
  param(name: string): string;
}

const noParam = (): string => '';

function patternOf({ method, path }: Route): string {
  return `${method} ${path}`;
}

/** The route table, compiled. Matching is Hono's; what a match means is ours. */
export class Router {
  readonly #router = new RegExpRouter<Route>();
  readonly #routes: readonly Route[];
  /** Most traffic goes to a handful of fixed paths; they need no pattern. */
  readonly #fixed = new Map<string, Match>();

  constructor(routes: readonly Route[]) {
    this.#routes = routes;
    for (const route of routes) {
      if (route.path.includes(':')) this.#router.add(route.method, route.path, route);
      else this.#fixed.set(patternOf(route), { route, pattern: patternOf(route), param: noParam });
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

  /** What to do instead, as a sentence with a blank in front; empty where nothing comes to mind. */
  hint(method: string, path: string): string {
    const suggestion = suggestionFor(path);
    if (suggestion !== undefined) return ` ${suggestion}`;
    const nearest = nearestRoute(method, path, this.#routes);
    if (!nearest) return '';
    // The route as people write it, without the patterns of its variable parts.
    const name = patternOf(nearest.route).replace(/\{[^}]*\}/g, '');
    if (nearest.isSimilar) return ` Did you mean ${name}?`;
    const docsRoute = 'GET /docs';
    const docsHint =
      name !== docsRoute && this.#fixed.has(docsRoute) ? `; ${docsRoute} lists them all` : '';
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
