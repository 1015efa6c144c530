/**
 * One handler serves an endpoint under every path that people really use. SDKs append their own
 * prefixes to whatever base URL they are given, so a base with `/v1`, without it, twice, with
 * `/openai` or `/anthropic`, or a whole endpoint pasted as a base must all end up in one place.
 *
 * Authorisation looks at the same normalised path as the router does: two opinions about a path
 * have opened protected routes elsewhere.
 */

/** First segments that mean a public endpoint, wherever the client believes it lives. */
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
  'key',
  'customer',
]);

/** What clients put in front of an endpoint's name, and whether only Anthropic's do. */
const prefixes: Readonly<Record<string, boolean>> = { v1: false, openai: false, anthropic: true };

/** What one API or another puts in front of its endpoints, also where it is not served here. */
export const prefixPattern = /^(?:v\d\w*|api|openai|anthropic)$/;

/** These really live below `/api/v1`; the rest there is OpenRouter's spelling of `/v1`. */
const managementResources = new Set(['keys', 'credits', 'byok']);

/** Whole endpoints that were given as a base URL, in front of the one that the client appends. */
const callableEndpoints = String.raw`messages|responses|embeddings|(?:chat|audio|images)/\w+`;
const pastedEndpoints = new RegExp(
  `^(?:(?:${callableEndpoints})/(?:v1/)*)+(?=${callableEndpoints}|models)`,
);

/** Served at exactly this path, because proxies shut it out by its path. */
const exactPath = '/metrics';

interface RoutePath {
  /** The path as the route table spells it. */
  readonly path: string;
  /** Came by `/api/v1`: such clients always want usage and cost in the last event. */
  readonly openRouterStyle: boolean;
  /** Came by a path that only Anthropic clients use, so that errors get their shape. */
  readonly anthropicStyle: boolean;
}

/** Clients write the same few paths over and over; others are worked out each time. */
const knownPathsMax = 200;
const knownPaths = new Map<string, RoutePath>();

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
  // Coding agents look for this path below any base URL they were given.
  if (rest === 'api/hello') {
    return { path: '/api/hello', openRouterStyle: false, anthropicStyle };
  }
  if (!resources.has(first)) {
    const path = `/${segments.join('/')}`;
    return { path: path === exactPath ? pathname : path, openRouterStyle: false, anthropicStyle };
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
