/** First segments of the endpoints below `/v1`. */
const resources = new Set([
  'chat',
  'messages',
  'responses',
  'embeddings',
  'audio',
  'images',
  'models',
  'jobs',
  'objects',
  'generation',
  'route',
  'key',
  'customer',
]);

/** Prefixes that clients send. True for those that only clients of the Anthropic API send. */
const prefixes: Readonly<Record<string, boolean>> = { v1: false, openai: false, anthropic: true };

/** Prefixes of any known API, including those that aren't supported. */
export const prefixPattern = /^(?:v\d\w*|api|openai|anthropic)$/;

/** Routes of the management API at `/api/v1`. Other paths there are OpenRouter's form of `/v1`. */
const managementResources = new Set(['keys', 'credits', 'byok']);

/** Matches endpoints that a user pasted into a base URL. The client appends another endpoint. */
const callableEndpoints = String.raw`messages|responses|embeddings|(?:chat|audio|images)/\w+`;
const pastedEndpoints = new RegExp(
  `^(?:(?:${callableEndpoints})/(?:v1/)*)+(?=${callableEndpoints}|models)`,
);

/**
 * Returns whether only one spelling of a path is served: proxies block these paths by comparing
 * them as they were sent.
 */
export function needsExactSpelling(path: string): boolean {
  return path === '/metrics' || path === '/admin' || path.startsWith('/admin/');
}

interface RoutePath {
  /** The path as in the route table. */
  readonly path: string;
  /**
   * True below `/api/v1`. OpenRouter's clients expect costs in dollars, and usage at the end of a
   * stream.
   */
  readonly openRouterStyle: boolean;
  /** True if only clients of the Anthropic API use this path. Its errors have Anthropic's shape. */
  readonly anthropicStyle: boolean;
}

/** Caches the few paths that most requests use. */
const knownPathsMax = 200;
const knownPaths = new Map<string, RoutePath>();

/**
 * Maps all common spellings of a path to one route. SDKs append their own prefixes to any base
 * URL, so a base URL with `/v1`, without it, with it twice, with `/openai` or `/anthropic`, or
 * with a full endpoint must all work.
 *
 * Access checks and the router must use the same normalized path; otherwise a different spelling
 * could bypass the access check.
 */
export function normalizePath(pathname: string): RoutePath {
  const found = knownPaths.get(pathname);
  if (found) return found;
  const route = parsePath(pathname);
  if (knownPaths.size < knownPathsMax && pathname.length <= 100) knownPaths.set(pathname, route);
  return route;
}

function parsePath(pathname: string): RoutePath {
  const segments = pathname.split('/').filter((segment) => segment !== '');
  let index = 0;
  let openRouterStyle = false;
  let anthropicStyle = false;
  for (; index < segments.length; index++) {
    const segment = segments[index] ?? '';
    if (segment === 'api' && isOpenRouterBase(segments, index)) openRouterStyle = true;
    else if (!Object.hasOwn(prefixes, segment)) break;
    anthropicStyle ||= prefixes[segment] === true;
  }
  const rest = segments.slice(index).join('/').replace(pastedEndpoints, '');
  const [first = ''] = rest.split('/', 1);
  // Coding agents append this path to their base URL.
  if (rest === 'api/hello') {
    return { path: '/api/hello', openRouterStyle: false, anthropicStyle };
  }
  if (!resources.has(first)) {
    const path = `/${segments.join('/')}`;
    const served = needsExactSpelling(path) ? pathname : path;
    return { path: served, openRouterStyle: false, anthropicStyle };
  }
  return {
    path: `/v1/${rest}`,
    openRouterStyle,
    anthropicStyle: anthropicStyle || first === 'messages',
  };
}

function isOpenRouterBase(segments: readonly string[], index: number): boolean {
  return segments[index + 1] === 'v1' && !managementResources.has(segments[index + 2] ?? '');
}
